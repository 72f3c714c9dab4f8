import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { loggingService, send } from '../events/helpers/logging-app.ts';
import { clean, root } from '../receivers/helpers/clean.ts';
import { jsonLines, rollcall } from './helpers.ts';

const BUYERS = { name: 'Buyers', schedule: '0 3 * * *', when: { performed: 'Order Completed' } };

const CONFIG = `
listen: { port: 0 }
store: sqlite:./rollcall.db
sources: [{ id: personas, writeKey: k }]
audiences:
  - { name: Big Spenders, source: personas, schedule: '0 3 * * *', sql: "select 'a' as user_id where 1 / 0 = 1" }
  - { name: VIPs, source: personas, schedule: '0 3 * * *', paused: true, sql: "select 'a' as user_id" }
traits:
  - { name: Lifetime Value, source: personas, schedule: '0 3 * * *', sql: "select 'a' as user_id, 1.5 as value" }
  - { name: Profile, source: personas, schedule: '0 3 * * *', sql: "select 'a' as user_id, 'x' as plan, ['a'] as tags, {'a': 1} as more" }
`;

/** Uses of the kit with the types of that configuration; each line marked so must fail to compile. */
const USES = `import { createReceiver } from '@rollcall/receivers';

createReceiver({
  secret: 's',
  on: {
    audience: { big_spenders: { entered: ({ userId }) => userId.length }, vips: {}, '*': {} },
    trait: {
      lifetime_value: { changed: ({ traits }) => (traits.lifetime_value ?? 0).toFixed(2) },
      profile: { changed: ({ traits }) => traits.tags?.map((tag) => tag?.toUpperCase() ?? traits.plan?.length) },
    },
  },
});
// @ts-expect-error a misspelt audience
createReceiver({ secret: 's', on: { audience: { big_spender: {} } } });
// @ts-expect-error a misspelt trait
createReceiver({ secret: 's', on: { trait: { lifetime_values: {} } } });
// @ts-expect-error a number is no text
createReceiver({ secret: 's', on: { trait: { lifetime_value: { changed: ({ traits }) => traits.lifetime_value?.length } } } });
`;

t.test('prints types that compile, and with which a misspelt audience or trait does not', async (t) => {
  const folder = t.testdir({ 'rollcall.yaml': CONFIG, 'uses.ts': USES });
  const file = join(folder, 'rollcall.d.ts');
  const written = await rollcall(['types', '-c', join(folder, 'rollcall.yaml'), '-o', file]);
  t.equal(written.code, 0, written.stderr);
  const text = readFileSync(file, 'utf8');
  t.match(text, 'audiences: {\n      "big_spenders": {};\n      "vips": {};\n    };');
  t.match(text, '"profile": { "plan": string | null; "tags": (string | null)[] | null; "more": unknown };');
  writeFileSync(
    join(folder, 'tsconfig.json'),
    JSON.stringify({ extends: `${root}tsconfig.json`, include: ['uses.ts', 'rollcall.d.ts'] }),
  );
  const compiled = await clean(`${root}node_modules/.bin/tsc`, ['--singleThreaded', '-p', folder]).catch(
    (error) => error,
  );
  t.equal(compiled.stdout, '');
});

t.test('handles audiences and traits with names that every object has', async (t) => {
  const folder = t.testdir({
    'rollcall.yaml': `
listen: { port: 0 }
store: sqlite:./rollcall.db
sources: [{ id: personas, writeKey: k }]
audiences:
  - { name: Constructor, source: personas, schedule: '0 3 * * *', sql: "select 'a' as user_id" }
  - { name: VIPs, source: personas, schedule: '0 3 * * *', sql: "select 'a' as user_id" }
traits:
  - { name: Text, key: toString, source: personas, schedule: '0 3 * * *', sql: "select 'a' as user_id, 'x' as value" }
  - { name: Plan, source: personas, schedule: '0 3 * * *', sql: "select 'a' as user_id, 'x' as value" }
`,
    'uses.ts': `import { createReceiver } from '@rollcall/receivers';

createReceiver({ secret: 's', on: { audience: { vips: {} }, trait: { plan: {} } } });
createReceiver({ secret: 's', on: { audience: { constructor: { exited: ({ userId }) => userId.length } } } });
createReceiver({ secret: 's', on: { trait: { toString: { changed: ({ traits }) => traits.toString?.length } } } });
// @ts-expect-error a misspelt handler
createReceiver({ secret: 's', on: { audience: { constructor: { enterd() {} } } } });
`,
    'tsconfig.json': JSON.stringify({ extends: `${root}tsconfig.json`, include: ['uses.ts', 'rollcall.d.ts'] }),
  });
  const config = join(folder, 'rollcall.yaml');
  t.equal((await rollcall(['types', '-c', config, '-o', join(folder, 'rollcall.d.ts')])).code, 0);
  const compiled = await clean(`${root}node_modules/.bin/tsc`, ['-p', folder]).catch((error) => error);
  t.equal(compiled.stdout, '');
});

t.test('prints types that work in modules of both kinds, in packages of both kinds', async (t) => {
  for (const type of ['commonjs', 'module']) {
    const folder = t.testdir({
      'package.json': JSON.stringify({ type }),
      'rollcall.yaml': CONFIG,
      'uses.mts': USES,
      'uses.cts': USES,
      'tsconfig.json': JSON.stringify({
        compilerOptions: { strict: true, noEmit: true, module: 'nodenext', skipLibCheck: true, types: [] },
        include: ['*.mts', '*.cts', '*.d.ts'],
      }),
    });
    const config = join(folder, 'rollcall.yaml');
    t.equal((await rollcall(['types', '-c', config, '-o', join(folder, 'rollcall.d.ts')])).code, 0);
    const compiled = await clean(`${root}node_modules/.bin/tsc`, ['--singleThreaded', '-p', folder]).catch(
      (error) => error,
    );
    t.match(compiled, { stdout: '', stderr: '' }, type);
    t.equal(compiled.code, undefined, type);
  }
});

t.test('prints the types, or JSON, and names a wrong definition', async (t) => {
  const folder = t.testdir({
    'rollcall.yaml': CONFIG,
    'wrong.yaml': `${CONFIG}  - { name: Odd, source: personas, schedule: '0 3 * * *', sql: 'select 1 as x' }\n`,
  });
  const config = join(folder, 'rollcall.yaml');
  t.match((await rollcall(['types', '-c', config])).stdout, /^ {4}audiences: \{\n {6}"big_spenders": \{\};$/m);
  t.same(jsonLines(await rollcall(['types', '-c', config, '--json'])), [
    { key: 'big_spenders', kind: 'audience', columns: [] },
    { key: 'vips', kind: 'audience', columns: [] },
    { key: 'lifetime_value', kind: 'trait', columns: [{ key: 'lifetime_value', type: 'number', isList: false }] },
    {
      key: 'profile',
      kind: 'trait',
      columns: [
        { key: 'plan', type: 'string', isList: false },
        { key: 'tags', type: 'string', isList: true },
        { key: 'more', type: 'unknown', isList: false },
      ],
    },
  ]);
  const file = join(folder, 'types.jsonl');
  t.match(await rollcall(['types', '-c', config, '--json', '-o', file]), { code: 0, stdout: '' });
  t.equal(readFileSync(file, 'utf8').split('\n').length, 5, 'as JSON into the file, too');
  const wrong = await rollcall(['types', '-c', join(folder, 'wrong.yaml')]);
  t.equal(wrong.code, 1);
  t.match(wrong.stderr, /column_missing: odd: /);
});

const SHORT = `
store: sqlite:./rollcall.db
eventLog: {}
sources: [{ id: personas, writeKey: k }]
audiences:
  - { name: Buyers, source: personas, schedule: '0 3 * * *', when: { performed: A } }
traits:
  - { name: Orders, source: personas, schedule: '0 3 * * *', value: { count: A } }
  - { name: Revenue, source: personas, schedule: '0 3 * * *', value: { sum: A, of: properties.total } }
  - { name: Latest, source: personas, live: true, value: { last: A, of: properties.sku } }
  - { name: Favourite, source: personas, schedule: '0 3 * * *', value: { mostFrequent: A, of: properties.sku } }
  - { name: Bought, source: personas, schedule: '0 3 * * *', value: { uniqueList: A, of: properties.sku } }
`;

t.test('gives short definitions the types of their values', async (t) => {
  const config = join(t.testdir({ 'rollcall.yaml': SHORT }), 'rollcall.yaml');
  const { stdout, stderr, code } = await rollcall(['types', '-c', config]);
  t.equal(code, 0, stderr);
  t.match(stdout, '"buyers": {};');
  t.match(stdout, '"orders": { "orders": number | null };');
  t.match(stdout, '"revenue": { "revenue": number | null };');
  t.match(stdout, '"latest": { "latest": string | number | boolean | null };');
  t.match(stdout, '"favourite": { "favourite": string | number | boolean | null };');
  t.match(stdout, '"bought": { "bought": (string | number | boolean)[] | null };');
});

t.test('types the events that the log has seen, for the kit and the client', async (t) => {
  const service = loggingService(t);
  const app = await service.open([BUYERS]);
  await app.start({ collect: true, schedules: false });
  const track = (event: string, properties?: object) => ({ type: 'track', userId: 'u', event, properties });
  await send(app, [
    track('Order Completed', { total: 5, items: [], coupon: null, 'it"s': { a: 1 } }),
    track('Order Completed', { total: 6.5, items: [], coupon: 'x', late: true }),
    track('Signed "Out"'),
  ]);
  await app.close();
  const uses = `import { Client } from '@rollcall/client';
import { createReceiver } from '@rollcall/receivers';
import type { Events } from './rollcall.d.ts';

new Client<Events>('KEY').track({ userId: 'u', event: 'Order Completed', properties: { total: 1, items: [], coupon: null } });
// @ts-expect-error a property of the wrong type
new Client<Events>('KEY').track({ userId: 'u', event: 'Order Completed', properties: { total: '1', items: [], coupon: null } });
createReceiver({ secret: 's', on: { track: { 'Order Completed': ({ properties }) => properties.total.toFixed(2) } } });
createReceiver({ secret: 's', on: { track: { 'Signed "Out"': (m) => m.userId, '*': ({ event }) => event.length } } });
createReceiver({ secret: 's', on: { track: ({ event }) => event.length } });
// @ts-expect-error a misspelt event
createReceiver({ secret: 's', on: { track: { 'Order Complete': () => {} } } });
// @ts-expect-error a property that no event had
createReceiver({ secret: 's', on: { track: { 'Order Completed': ({ properties }) => properties.totl } } });
`;
  const config = join(service.folder, 'rollcall.yaml');
  writeFileSync(config, JSON.stringify(service.config([BUYERS])));
  writeFileSync(join(service.folder, 'uses.ts'), uses);
  const include = ['uses.ts', 'rollcall.d.ts'];
  const project = JSON.stringify({ extends: `${root}tsconfig.json`, include });
  writeFileSync(join(service.folder, 'tsconfig.json'), project);
  t.match(await rollcall(['types', '-c', config, '-o', join(service.folder, 'rollcall.d.ts')]), { code: 0 });
  const text = readFileSync(join(service.folder, 'rollcall.d.ts'), 'utf8');
  t.match(
    text,
    `  "Order Completed": { "coupon": null | string; "it\\"s"?: Record<string, unknown>; "items": unknown[]; "late"?: boolean; "total": number };
  "Signed \\"Out\\"": Record<string, never>;
`,
  );
  const compiled = await clean(`${root}node_modules/.bin/tsc`, ['-p', service.folder]).catch((error) => error);
  t.equal(compiled.stdout, '');
  t.match(jsonLines(await rollcall(['types', '--json', '-c', config])), [
    { kind: 'audience' },
    { kind: 'event', name: 'Order Completed', properties: [{ name: 'coupon', types: ['null', 'string'] }] },
    { name: 'Signed "Out"', properties: [] },
  ]);
});

t.test("reports a file that can't be written as bad usage", async (t) => {
  const folder = t.testdir({ 'rollcall.yaml': CONFIG, file: '' });
  const config = join(folder, 'rollcall.yaml');
  t.match(await rollcall(['types', '-c', config, '-o', join(folder, 'file', 'types.d.ts')]), {
    code: 2,
    stderr: /^bad_usage: Nothing can be written there: ENOTDIR.*\n$/,
  });
  for (const command of [
    ['init', '--yes'],
    ['demo', '--once'],
  ]) {
    t.match(await rollcall([...command, join(folder, 'file')]), {
      code: 2,
      stderr: /^bad_usage: Nothing can be written there: .*\n$/,
    });
  }
});

t.test('types a hashed column as text', async (t) => {
  const destination = (name: string, columns: string) =>
    `  - { name: ${name}, sources: [personas], webhookUrl: https://${name}.example.com/, columns: ${columns} }\n`;
  const folder = t.testdir({
    'rollcall.yaml': `
store: sqlite:./rollcall.db
sources: [{ id: personas, writeKey: k }]
destinations:
${destination('ads', '{ size: sha256, age: sha256 }')}${destination('crm', '{ age: plain, mail: plain }')}audiences:
  - { name: VIPs, source: personas, with: [size, age, mail], sql: "select 'a' as user_id, 1 as size, 2 as age, 'x' as mail" }
`,
  });
  const written = await rollcall(['types', '-c', join(folder, 'rollcall.yaml'), '--json']);
  t.match(
    jsonLines(written),
    [
      {
        columns: [
          { key: 'size', type: 'string' },
          { key: 'age', type: 'scalar' },
          { key: 'mail', type: 'string' },
        ],
      },
    ],
    written.stderr,
  );
});
