// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables of the configuration file
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { loadConfig } from '../../src/config/load.ts';
import { EXAMPLE, EXAMPLE_ENV, mistakesIn, parse, withParts } from './helpers.ts';

t.test("reads the design's example into the values that the program works with", async (t) => {
  const config = parse(EXAMPLE, EXAMPLE_ENV);
  t.match(config, {
    folder: '/etc/rollcall',
    serviceName: 'Rollcall',
    store: { url: 'sqlite:/etc/rollcall/rollcall.db', maxQueued: 1_000_000 },
    listen: { host: '127.0.0.1', port: 8080 },
    network: { allow: ['127.0.0.0/8'], ca: [], proxy: null },
    admin: { tokens: [{ name: 'admin', token: 'the-admin-token-of-this-test', may: ['read', 'operate', 'delete'] }] },
    eventLog: null,
    attemptRetention: 7 * 86_400_000,
    recordRetention: { runs: 90 * 86_400_000, regulations: 365 * 86_400_000, audit: 365 * 86_400_000 },
    delivery: { removedAfter: 86_400_000 },
    logLevel: 'info',
  });
  t.same(config.sources[0], { id: 'shop', writeKey: '0123', enabled: true }, 'digits from the environment stay text');
  t.match(config.destinations[0], {
    name: 'crm',
    enabled: true,
    secrets: ['s'],
    endpoints: [{ id: /^[0-9a-f]{16}$/, url: 'https://crm.example.com/hooks', headers: { 'x-env': 'prod' } }],
    require: 'any',
    ratePerSecond: null,
  });
  t.match(config.audiences[0], {
    kind: 'audience',
    key: 'big_spenders',
    engine: 'lake',
    schedule: '*/15 * * * *',
    timezone: null,
    paused: false,
    guard: { maxExits: { percent: 20 }, maxEntries: null, minMembers: 100, allowEmpty: false },
  });
  t.match(
    config.traits[0],
    { kind: 'trait', key: 'lifetime_value', engine: 'lake' },
    'the first engine is the default',
  );
  t.same(config.engines['lake'], {
    concurrency: 2,
    type: 'duckdb',
    path: '/etc/rollcall/audiences.duckdb',
    memoryLimit: null,
    threads: null,
    ...{ tables: {}, extensions: [], secrets: {}, attach: {} },
  });
});

t.test('makes keys of names, in which VIPs is one word', async (t) => {
  const keys = { VIPs: 'vips', 'Our VIPs 2': 'our_vips_2', 'Big Spenders': 'big_spenders', SKUs: 'skus', VIP: 'vip' };
  for (const [name, key] of Object.entries(keys)) {
    t.equal(parse(withParts({ audience: `name: ${name}\nsql: x` })).audiences[0]?.key, key);
  }
});

t.test('adds an embedded engine to a file without engines', async (t) => {
  const { engines, audiences } = parse(withParts({}));
  t.match(engines, { lake: { type: 'duckdb', path: '/etc/rollcall/audiences.duckdb' } });
  t.equal(audiences[0]?.engine, 'lake');
});

t.test('reads short forms like the long ones', async (t) => {
  const destination = 'webhookUrl: http://127.0.0.1:9/x\nsharedSecret: [new, old]\nrateLimit: 600/m\nenabled: "false"';
  const [crm] = parse(withParts({ destination })).destinations;
  t.match(crm, { secrets: ['new', 'old'], ratePerSecond: 10, enabled: false });
  t.match(crm?.endpoints, [{ url: 'http://127.0.0.1:9/x', headers: {} }]);
  const top = 'store: { url: "sqlite:a.db", maxQueued: 5 }\nattempts: { keep: 30d }\ndelivery: { removedAfter: 2h }';
  const config = parse(withParts({ top }));
  t.same(config.store, { url: 'sqlite:/etc/rollcall/a.db', maxQueued: 5 });
  t.equal(parse(withParts({ top: 'store: { maxQueued: 5 }' })).store.url, 'sqlite:/etc/rollcall/rollcall.db');
  for (const url of ['sqlite:/b.db', 'postgres://u@h/d']) {
    t.equal(parse(withParts({ top: `store: { url: "${url}" }` })).store.url, url);
  }
  t.equal(config.attemptRetention, 30 * 86_400_000);
  t.equal(config.delivery.removedAfter, 7_200_000);
  const guarded = 'name: A\nsql: x\nguard: { maxExits: 12.5%, maxEntries: 500 }';
  t.match(parse(withParts({ audience: guarded })).audiences[0]?.guard, {
    maxExits: { percent: 12.5 },
    maxEntries: { count: 500 },
  });
  t.same(parse(withParts({ top: 'network: { allow: [10.0.0.7, "fd00::1"] }' })).network.allow, [
    '10.0.0.7/32',
    'fd00::1/128',
  ]);
});

t.test('keeps an in-memory store in memory', async (t) => {
  t.equal(parse(withParts({ top: 'store: "sqlite::memory:"' })).store.url, 'sqlite::memory:');
});

t.test('fills in variables, with defaults, but not $${', async (t) => {
  const audience = 'name: A\nsql: "select \'$${X}\', ${ID:-user_id}, ${SET:-no}, $now"';
  const [first] = parse(withParts({ audience, top: 'listen: { port: "${PORT}" }' }), {
    SET: 'yes',
    PORT: '81',
  }).audiences;
  t.equal(first?.sql, "select '${X}', user_id, yes, $now");
  t.equal(parse(withParts({ top: 'listen: { port: "${PORT}" }' }), { PORT: '81' }).listen.port, 81);
});

t.test('passes SQL to the engine as written, except for variables', (t) => {
  const sql = (text: string) =>
    parse(withParts({ audience: `name: A\nsql: ${JSON.stringify(text)}` }), { T: 'orders' }).audiences[0]?.sql;
  for (const text of [
    'select $${"a": 1}$$',
    'select $${1,2}$$',
    'select $j${"a": 1}$j$',
    "select 'a${2}', $now",
    '$${ T }$$',
  ])
    t.equal(sql(text), text);
  t.equal(sql('from ${T}'), 'from orders');
  t.equal(sql("select '$${T}', '$${T:-x}'"), "select '${T}', '${T:-x}'");
  t.equal(sql('select $$${T}$$'), 'select $${T}$$', 'an array of one, in dollar quotes');
  t.end();
});

t.test('omits an absent former secret, but not the first one, which signs', async (t) => {
  const destination = 'webhookUrl: https://a.example.com/\nsharedSecret: ["${NEW:-}", "${OLD:-}", "${OLDER:-}"]';
  const file = withParts({ destination });
  t.same(parse(file, { NEW: 'n' }).destinations[0]?.secrets, ['n']);
  t.same(parse(file, { NEW: 'n', OLDER: 'o' }).destinations[0]?.secrets, ['n', 'o']);
  t.match(mistakesIn(file, { OLD: 'o' }), { 'destinations[0].sharedSecret[0]': { message: /must not be empty/ } });
  t.match(mistakesIn(file.replace('OLD:-', 'OLD'), { NEW: 'n', OLD: '' }), {
    'destinations[0].sharedSecret[1]': { message: /must not be empty/ },
  });
});

t.test('sets no variable from a property that every object inherits', (t) => {
  for (const name of ['constructor', 'toString', '__proto__']) {
    t.match(mistakesIn(withParts({ audience: `name: A\nsql: "select \${${name}}"` })), {
      'audiences[0].sql': { message: new RegExp(`needs the environment variable ${name}`) },
    });
  }
  t.end();
});

t.test('reports a misspelt variable instead of using a guessable secret', (t) => {
  for (const secret of [
    '${CRM-SECRET}',
    '${CRM_SECRET',
    '${}',
    '${ CRM_SECRET }',
    '${CRM_SECRET:?set it}',
    '${A:-${B}}',
  ]) {
    const destination = `webhookUrl: https://a.example.com/\nsharedSecret: "${secret}"`;
    t.match(mistakesIn(withParts({ destination }), { CRM_SECRET: 's', B: 'b' }), {
      'destinations[0].sharedSecret': { message: /names no variable: write \$\{NAME\}/ },
    });
  }
  t.end();
});

t.test('inserts variables as text, never as structure', async (t) => {
  const evil = 'x", enabled: false, name: "y';
  const file = withParts({ destination: 'webhookUrl: https://a.example.com/\nsharedSecret: "${SECRET}"' });
  const [destination] = parse(file, { SECRET: evil }).destinations;
  t.match(destination, { name: parse(file, { SECRET: 's' }).destinations[0]?.name, secrets: [evil], enabled: true });
});

t.test("reads certificate authorities relative to the file's folder", async (t) => {
  const pem = '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n';
  const folder = t.testdir({
    'ca.pem': pem,
    'no.pem': 'nothing',
    'rollcall.yaml': withParts({ top: 'network: { ca: ca.pem }' }),
    'bad.yaml': withParts({ top: 'network: { ca: [no.pem, gone.pem] }' }),
  });
  t.same(loadConfig(join(folder, 'rollcall.yaml'), {}).network.ca, [pem]);
  t.throws(() => loadConfig(join(folder, 'bad.yaml'), {}), {
    code: 'bad_configuration',
    mistakes: [
      { path: 'network.ca[0]', message: /no PEM certificate/ },
      { path: 'network.ca[1]', message: /ENOENT/ },
    ],
  });
});

t.test('reads files as Windows writes them, or refuses them with a reason', async (t) => {
  const text = withParts({ top: 'serviceName: "${NAME}"' }).replaceAll('\n', '\r\n');
  const folder = t.testdir({
    'rollcall.yaml': `\uFEFF${text}`,
    'utf-16.yaml': Buffer.from(`\uFEFF${text}`, 'utf16le'),
    'latin-1.yaml': Buffer.from(`${text}# Ü\r\n`, 'latin1'),
    '.env': '\uFEFFNAME=Shop\r\n',
  });
  t.equal(loadConfig(join(folder, 'rollcall.yaml'), {}).serviceName, 'Shop');
  for (const name of ['utf-16.yaml', 'latin-1.yaml']) {
    t.throws(() => loadConfig(join(folder, name), {}), {
      code: 'bad_configuration',
      mistakes: [{ path: '', message: /is not UTF-8/ }],
    });
  }
  await writeFile(join(folder, '.env'), Buffer.from('NAME=Shop', 'utf16le').fill(0xff, 0, 2));
  t.throws(() => loadConfig(join(folder, 'rollcall.yaml'), {}), {
    code: 'bad_configuration',
    mistakes: [{ path: '', message: /is not UTF-8/ }],
    message: /^\.env has/,
  });
});

t.test('reports a missing file with the command that makes one', async (t) => {
  const file = join(t.testdir(), 'none.yaml');
  t.throws(() => loadConfig(file, {}), {
    code: 'bad_configuration',
    message: /cannot be read: there is no such file\. .*-c FILE.*rollcall init/s,
  });
});

t.test('takes an abbreviation in the plural for one word in a key', async (t) => {
  for (const [name, key] of [
    ['VIPs', 'vips'],
    ['Our VIPs And SKUs', 'our_vips_and_skus'],
    ['VIP Service', 'vip_service'],
  ])
    t.equal(parse(withParts({ audience: `name: ${name}\nsql: x` })).audiences[0]?.key, key);
});

t.test('accepts as a key every key that it derives from a name', async (t) => {
  for (const [name, key] of [
    ['日本語', '日本語'],
    ['ลูกค้า', 'ลูกค้า'],
    ['नमस्ते', 'नमस्ते'],
  ]) {
    t.equal(parse(withParts({ audience: `name: ${name}\nsql: x` })).audiences[0]?.key, key);
    t.equal(parse(withParts({ audience: `name: A\nkey: ${key}\nsql: x` })).audiences[0]?.key, key);
  }
});

t.test('warns of an audience that would overwrite what receivers know of a person', async (t) => {
  const warned = (audience: string) => parse(withParts({ audience })).warnings.map(({ path }) => path);
  t.same(warned('name: User Id\nsql: x'), ['audiences[0]']);
  t.same(warned('name: A\nkey: Email\nsql: x'), ['audiences[0]']);
  t.same(warned('name: Email Readers\nsql: x'), []);
});

t.test('warns of filters that let nothing through', async (t) => {
  const warned = (filters: string, from = 'shop') => {
    const text = withParts({ destination: `webhookUrl: https://crm.example.com/\n${filters}` })
      .replace('sources: [{', 'sources: [{ id: personas, writeKey: p }, {')
      .replace('source: shop', `source: ${from}`);
    return parse(text).warnings.map(({ path, message }) => `${path} ${message}`);
  };
  t.same(warned('types: [track, identify]\nevents: [Order Completed]\naudiences: [everyone]'), []);
  t.same(warned('types: [page]\nevents: []\naudiences: []'), [], 'nothing is named that could come');
  t.match(warned('types: [identify]\nevents: [Order Completed]'), [/^destinations\[0\]\.events .* without track/]);
  t.match(warned('types: [track]\naudiences: [everyone]'), [/^destinations\[0\]\.audiences .* without identify/]);
  t.match(warned('audiences: [everyone]', 'personas'), [
    /^destinations\[0\]\.audiences names everyone, but the destination is not connected to personas/,
  ]);
  const sources = ['shop', 'personas', 'web', 'app'].map((id) => `{ id: ${id}, writeKey: ${id} }`);
  const audiences = ['personas', 'web', 'personas', 'app'].map(
    (source, index) => `{ name: A${index}, source: ${source}, sql: x }`,
  );
  const several = `sources: [${sources}]
audiences: [${audiences}]
destinations:
  - { name: crm, sources: [app], audiences: [a_0, a_1, a_2, a_3], webhookUrl: "https://crm.example.com/" }`;
  t.match(
    parse(several).warnings.map(({ message }) => message),
    [/^names a_0, a_2, .* to personas,/, /^names a_1, .* to web,/],
  );
});

t.test('defaults concurrency and timeouts, and finds a module next to the file', async (t) => {
  const { engines, audiences } = parse(
    withParts({
      audience: 'name: A\nsql: x\ntimeout: 90s',
      top: 'engines: { w: { type: postgres, url: "postgres://h/d" }, m: { type: module, module: ./my-engine.js }, p: { type: module, module: "@me/engine", options: { a: 1 }, concurrency: 9 } }',
    }),
  );
  t.equal(audiences[0]?.timeout, 90_000);
  t.match(engines, {
    w: { concurrency: 4 },
    m: { module: '/etc/rollcall/my-engine.js', concurrency: 4, options: {} },
    p: { module: '@me/engine', concurrency: 9, options: { a: 1 } },
  });
  t.match(parse(withParts({ audience: 'name: A\nsql: x' })), {
    engines: { lake: { concurrency: 2 } },
    audiences: [{ timeout: 3_600_000 }],
  });
});
