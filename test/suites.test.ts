import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import t from 'tap';
import { SUITES } from './suites/suites.ts';

const TESTS = import.meta.dirname;

t.test('runs every test file once in npm test', async (t) => {
  const files = readdirSync(TESTS, { recursive: true, encoding: 'utf8' })
    .map((path) => path.replaceAll('\\', '/'))
    .filter((path) => path.endsWith('.test.ts') && !/(^|\/)(node_modules|dist)\//.test(path));
  t.ok(files.length > 200);
  t.same(Object.values(SUITES).flat().sort(), files.sort());
});

t.test('has a file for every suite, which npm test finds, and for nothing else', async (t) => {
  const folder = resolve(TESTS, 'suites');
  const suites = readdirSync(folder).filter((name) => name.endsWith('.suite.ts'));
  t.same(
    suites.sort(),
    Object.keys(SUITES)
      .map((name) => `${name}.suite.ts`)
      .sort(),
  );
  for (const [name, files] of Object.entries(SUITES)) {
    t.ok(files.length > 0, name);
    t.match(readFileSync(resolve(folder, `${name}.suite.ts`), 'utf8'), `await runTogether(SUITES['${name}']);`);
  }
  t.match(readFileSync(resolve(TESTS, '../.taprc'), 'utf8'), 'include:\n  - "test/suites/*.suite.ts"\n');
});

const skip = process.env['TAP'] === '1' ? false : 'tap itself removes it first; npm test has a hook';
t.test('keeps the folder of a test until its teardowns have run', { skip }, async (t) => {
  let wasThere: boolean | null = null;
  await t.test('makes its folder first', async (t) => {
    const folder = t.testdir({});
    t.teardown(async () => {
      await new Promise((resolve) => setImmediate(resolve));
      wasThere = existsSync(folder);
    });
    t.ok(existsSync(folder));
  });
  t.equal(wasThere, true);
});
