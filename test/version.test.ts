import { readFileSync } from 'node:fs';
import t from 'tap';
import { VERSION } from '../src/kernel/version.ts';

t.test('gives the three packages and the program one version', async (t) => {
  for (const file of ['package.json', 'receivers/package.json', 'src/client/package.json']) {
    const { version } = JSON.parse(readFileSync(new URL(`../${file}`, import.meta.url), 'utf8')) as { version: string };
    t.equal(version, VERSION, file);
  }
});
