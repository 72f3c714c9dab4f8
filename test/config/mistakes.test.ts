// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables of the configuration file
import t from 'tap';
import { ConfigurationError } from '../../src/config/mistakes.ts';
import { mistakesIn, parse, withParts } from './helpers.ts';

t.test('reports every mistake at once, with its path and line', async (t) => {
  const text = [
    'serviceNam: x',
    'store: mysql://h/d',
    'listen: { port: 99999 }',
    'sources:',
    '  - { id: shop, writeKey: 123 }',
    '  - { id: shop, writeKey: "${NOPE}" }',
    'destinations:',
    '  - name: crm',
    '    sources: [shpo]',
    '    webhookUrl: ftp://crm.example.com/',
  ].join('\n');
  const found = mistakesIn(text);
  t.same(
    Object.values(found).map(({ line, path }) => [line, path]),
    [
      [1, 'serviceNam'],
      [2, 'store'],
      [3, 'listen.port'],
      [5, 'sources[0].writeKey'],
      [6, 'sources[1].writeKey'],
      [6, 'sources[1].id'],
      [9, 'destinations[0].sources[0]'],
      [10, 'destinations[0].webhookUrl'],
    ],
  );
  t.match(found['serviceNam']?.message, /Did you mean serviceName\?/);
  t.match(found['sources[0].writeKey']?.message, /quotes/);
  t.match(found['sources[1].writeKey']?.message, /NOPE/);
  t.match(found['destinations[0].sources[0]']?.message, /Did you mean shop\?/);
  t.throws(() => parse(text), {
    message: /^rollcall\.yaml has 8 mistakes:\n {2}rollcall\.yaml:1:1: serviceNam is not/,
  });
});

/** [part of the file, where it goes, path of the mistake, what its message says] */
const DESTINATION_MISTAKES: readonly (readonly [string, string, RegExp])[] = [
  ['webhooks: []', 'webhooks', /at least one/],
  [`webhooks: [${[1, 2, 3, 4, 5, 6].map((n) => `{ url: "https://a.example.com/${n}" }`)}]`, 'webhooks', /at most 5/],
  ['enabled: true', '', /needs webhooks/],
  ['webhookUrl: https://a.example.com/\nwebhooks: [{ url: "https://b.example.com/" }]', 'webhookUrl', /one of the two/],
  ['webhooks: [{ url: "https://a.example.com/" }, { url: "https://a.example.com/" }]', 'webhooks[1].url', /twice/],
  ['webhookUrl: crm.example.com/hooks', 'webhookUrl', /full URL/],
  ['webhookUrl: "https://a.example.com/\\nx"', 'webhookUrl', /newlines/],
  ['webhookUrl: "https://"', 'webhookUrl', /full URL/],
  ['webhookUrl: https://a.example.com/\nsharedSecret: ""', 'sharedSecret', /must not be empty/],
  ['webhookUrl: https://a.example.com/\nsharedSecret: [a, ""]', 'sharedSecret[1]', /must not be empty/],
  ['webhookUrl: https://a.example.com/\nsharedSecret: []', 'sharedSecret', /list of secrets/],
  ['webhookUrl: https://a.example.com/\nsharedSecret: 5', 'sharedSecret', /must be a secret/],
  ['webhookUrl: https://a.example.com/\nrequire: most', 'require', /any or all/],
  ['webhookUrl: https://a.example.com/\nrateLimit: 0/s', 'rateLimit', /100\/s/],
  ['webhookUrl: https://a.example.com/\nenabled: maybe', 'enabled', /true or false/],
  ['webhookUrl: https://a.example.com/\nsigning: hmac', 'signing', /x-signature, standard, both/],
  ['webhookUrl: https://a.example.com/\nsigning: both', 'signing', /needs a sharedSecret/],
  ['webhookUrl: https://a.example.com/\nsigning: standard\nsharedSecret: whsec_', 'sharedSecret', /base64/],
  ['webhooks: [{ url: "https://a.example.com/", batch: { wait: 30d } }]', 'webhooks[0].batch.wait', /at most 1h/],
  ['webhooks: [{ url: "https://a.example.com/", batch: { wait: 200 } }]', 'webhooks[0].batch.wait', /such as 200ms/],
  ['webhookUrl: https://a.example.com/\nbatch: {}', 'batch', /list of \{ url, batch \}, in place of webhookUrl/],
  ['webhookUrl: https://a.example.com/\nheaders: {}', 'headers', /belongs to a webhook: .*\{ url, headers \}/],
  ['url: https://a.example.com/\nwebhookUrl: https://a.example.com/', 'url', /belongs to a webhook: .*\{ url \}/],
  [
    'webhooks: [{ url: "https://a.example.com/", sharedSecret: s }]',
    'webhooks[0].sharedSecret',
    /belongs to the destination, beside webhooks/,
  ],
  ['webhookUrl: https://a.example.com/\nrateLimit: 100', 'rateLimit', /such as 100\/s/],
  ['webhookUrl: https://a.example.com/\ntypes: [identfy]', 'types[0]', /no kind of message\. Did you mean identify\?/],
  ['webhookUrl: https://a.example.com/\ntypes: identify', 'types', /must be a list/],
  ['webhookUrl: https://a.example.com/\nevents: [1]', 'events[0]', /must be text/],
  ['webhookUrl: https://a.example.com/\naudiences: [big_spender]', 'audiences[0]', /which there is not/],
];

t.test('reports mistakes in a destination', async (t) => {
  for (const [destination, path, message] of DESTINATION_MISTAKES) {
    const found = mistakesIn(withParts({ destination }));
    const full = path === '' ? 'destinations[0]' : `destinations[0].${path}`;
    t.match(found[full]?.message, message, destination);
    t.equal(Object.keys(found).length, 1, `${destination}: nothing else is wrong`);
  }
});

t.test('checks each webhook even if there are too many', async (t) => {
  const url = (n: number) => `{ url: "${n === 3 ? 'ftp' : 'https'}://a.example.com/${n}" }`;
  const found = mistakesIn(withParts({ destination: `webhooks: [${[1, 2, 3, 4, 5, 6].map(url)}]` }));
  t.match(found['destinations[0].webhooks']?.message, /at most 5/);
  t.match(found['destinations[0].webhooks[2].url']?.message, /full URL/);
});

t.test('reports mistakes in headers', async (t) => {
  const headers = (text: string) => `webhooks: [{ url: "https://a.example.com/", headers: { ${text} } }]`;
  const found = (text: string) => {
    const mistakes = Object.values(mistakesIn(withParts({ destination: headers(text) })));
    t.equal(mistakes.length, 1, text);
    return mistakes[0];
  };
  for (const name of ['X-Signature', 'user-agent', 'Content-Type', 'idempotency-key', 'Host', 'transfer-encoding']) {
    t.match(found(`${name}: x`), {
      path: `destinations[0].webhooks[0].headers.${name}`,
      message: /cannot be replaced/,
    });
  }
  t.match(found('a: 1, b: 2, c: 3, d: 4, e: 5, f: 6'.replaceAll(/\d/g, 'x')), { message: /5 are allowed/ });
  const both = mistakesIn(withParts({ destination: headers('a: x, b: x, c: x, d: x, e: x, host: 6') }));
  t.match(both['destinations[0].webhooks[0].headers'], { message: /5 are allowed/ });
  t.match(both['destinations[0].webhooks[0].headers.host'], { message: /must be text/ });
  t.match(found('x-a: "1\\r\\nx-b: 2"'), { message: /newline/ });
  t.match(found('x-a: "\\u2713"'), { message: /cannot carry/ });
  t.match(found('"x a": b'), { message: /not a header name/ });
  t.match(found('x-a: b, X-A: c'), { message: /twice/ });
  t.match(found('x-a: 5'), { message: /quotes/ });
});

const AUDIENCE_MISTAKES: readonly (readonly [string, string, RegExp])[] = [
  ['name: "!!!"\nsql: x', 'name', /Set key/],
  ['name: A\nkey: "a b"\nsql: x', 'key', /letters, digits/],
  ['name: A\nsql: ""', 'sql', /empty/],
  ['name: A', 'sql', /required/],
  ['name: A\nsql: x\nengine: lak', 'engine', /"lak".*Did you mean lake\?/],
  ['name: A\nsql: x\nschedule: "61 * * * *"', 'schedule', /cron expression/],
  ['name: A\nsql: x\nschedule: "* * *"', 'schedule', /5 or 6 fields/],
  ['name: A\nsql: x\nschedule: "*/99 * * * *"', 'schedule', /a minute has no step of 99/],
  ['name: A\nsql: x\nschedule: "*/60 5 */24 * * *"', 'schedule', /no step of 24.*a second has no step of 60/],
  ['name: A\nsql: x\ntimeout: 0s', 'timeout', /longer than nothing/],
  ['name: A\nsql: x\ntimeout: soon', 'timeout', /unit/],
  ['name: A\nsql: x\nguard: { maxExits: 200% }', 'guard.maxExits', /at most 100%/],
  [`name: ${'x'.repeat(150)}\nsql: x`, 'name', /too long.*Set key/],
  ['name: A\nsql: x\nschedule: "0 9 13 * 5"', 'schedule', /day 13 of a month and each weekday 5.*or only.* both/],
  ['name: A\nsql: x\nschedule: "0 0 9 */2 jan mon-fri"', 'schedule', /two ways/],
  ['name: A\nsql: x\nschedule: "@reboot"', 'schedule', /cron expression/],
  ['name: A\nsql: x\nkey: __proto__', 'key', /letters, digits/],
  ['name: A\nsql: x\nguard:', 'guard', /is empty: give it a value, or remove it/],
  ['name: A\nsql: x\nlive: "true"', 'live', /needs a short definition/],
  ['name: A\nsql: x\ntimezone: Mars/Base', 'timezone', /Europe\/Berlin/],
  ['name: A\nsql: x\nguard: { maxExits: 20pct }', 'guard.maxExits', /20%/],
  ['name: A\nsql: x\nguard: { maxExit: 20% }', 'guard.maxExit', /Did you mean maxExits\?/],
  ['name: A\nsql: x\nguard: { minMembers: -1 }', 'guard.minMembers', /whole number/],
];

t.test('reports mistakes in an audience', async (t) => {
  for (const [audience, path, message] of AUDIENCE_MISTAKES) {
    const found = mistakesIn(withParts({ audience }));
    t.match(found[`audiences[0].${path}`]?.message, message, audience);
    t.equal(Object.keys(found).length, 1, `${audience}: nothing else is wrong`);
  }
});

t.test('refuses duplicate names and keys across audiences and traits', async (t) => {
  const top =
    'traits: [{ name: everyone, source: shop, sql: x }, { name: Other, key: Everyone2, source: shop, sql: x }]';
  t.match(mistakesIn(withParts({ top })), {
    'traits[0].name': { message: /gives the key everyone, as audiences\[0\] \(rollcall\.yaml:8:5\) does/ },
  });
  const twice = 'sources: [{ id: a, writeKey: k }, { id: a, writeKey: k }]';
  t.match(mistakesIn(twice), {
    'sources[1].id': { message: /same as that of sources\[0\]/ },
    'sources[1].writeKey': { message: /same as that of sources\[0\]/ },
  });
  const destination = 'sources: [a]\n    webhookUrl: https://a.example.com/';
  const destinations = `destinations:\n  - name: x\n    ${destination}\n  - name: x\n    ${destination}`;
  t.match(mistakesIn(`sources: [{ id: a, writeKey: k }]\n${destinations}`), {
    'destinations[1].name': { message: /same as that of destinations\[0\]/ },
  });
});

t.test('refuses a write key that Basic credentials cannot carry', async (t) => {
  const keys = {
    '': /empty/,
    'a:b': /colon/,
    ':': /colon/,
    'k\n': /line break/,
    'a\0b': /control/,
    '\ud800': /control/,
  };
  for (const [writeKey, message] of Object.entries(keys)) {
    const found = mistakesIn(JSON.stringify({ sources: [{ id: 'a', writeKey }] }));
    t.match(found, { 'sources[0].writeKey': { message } }, JSON.stringify(writeKey));
  }
  for (const writeKey of ['a b', 'é', 'a/b+c==', '%'])
    t.ok(parse(JSON.stringify({ sources: [{ id: 'a', writeKey }] })));
});

t.test('refuses reserved names', async (t) => {
  t.match(mistakesIn('sources: [{ id: "rollcall:notices", writeKey: k }]'), {
    'sources[0].id': { message: /letters/ },
  });
});

t.test('reports mistakes elsewhere', async (t) => {
  const cases: readonly (readonly [string, string, RegExp])[] = [
    [
      'engines: { lake: { type: duckdbb } }',
      'engines.lake.type',
      /duckdb, postgres, clickhouse, mysql, sqlite, trino, snowflake, bigquery or module/,
    ],
    ['engines: { a: { type: sqlite, path: a.db, snapshots: b } }', 'engines.a.snapshots', /"b", which is not there/],
    [
      'engines: { a: { type: sqlite, path: a.db }, b: { type: mysql, url: "mysql://h/d", snapshots: a } }',
      'engines.b.snapshots',
      /can have no snapshots of others/,
    ],
    [
      'engines: { a: { type: snowflake, account: a, user: u, privateKey: k, url: "https://me:pw@h" } }',
      'engines.a.url',
      /^must have no user, password or query$/,
    ],
    [
      'engines: { a: { type: bigquery, project: p, credentials: k, url: "https://h/?key=pw" } }',
      'engines.a.url',
      /^must have no user, password or query$/,
    ],
    ['eventLog: { path: "s3://bucket/log", endpoint: "https://me:pw@h" }', 'eventLog.endpoint', /^must have no user/],
    ['engines: { lake: { type: clickhouse } }', 'engines.lake.url', /required|HTTP interface/],
    [
      'engines: { lake: { type: clickhouse, url: "clickhouse://h:9000/db" } }',
      'engines.lake.url',
      /its HTTP interface/,
    ],
    [
      'engines: { lake: { type: clickhouse, url: "https://h:8443", database: a-b } }',
      'engines.lake.database',
      /letters/,
    ],
    [
      'engines: { lake: { type: clickhouse, url: "https://h:8443", settings: { async_insert: 1 } } }',
      'engines.lake.settings.async_insert',
      /itself/,
    ],
    [
      'engines: { lake: { type: clickhouse, url: "https://h:8443", settings: { group_by_overflow_mode: any } } }',
      'engines.lake.settings.group_by_overflow_mode',
      /itself/,
    ],
    [
      'engines: { lake: { type: clickhouse, url: "https://h:8443", settings: { skip_unavailable_shards: 1 } } }',
      'engines.lake.settings.skip_unavailable_shards',
      /itself/,
    ],
    [
      'engines: { lake: { type: clickhouse, url: "https://h:8443", settings: { "a b": 1 } } }',
      'engines.lake.settings.a b',
      /name of a setting/,
    ],
    [
      'engines: { lake: { type: clickhouse, url: "https://h:8443", settings: { max_threads: [1] } } }',
      'engines.lake.settings.max_threads',
      /must be text/,
    ],
    ['engines: { "a:b": { type: duckdb } }', 'engines.a:b', /letters, digits/],
    ['engines: { lake: { type: postgres, url: mysql://h/d } }', 'engines.lake.url', /postgres:\/\//],
    ['engines: { lake: { type: duckdb, threads: 0 } }', 'engines.lake.threads', /from 1 to/],
    ['engines: { lake: { type: duckdb, memoryLimit: much } }', 'engines.lake.memoryLimit', /2GB/],
    ['engines: { a: { type: duckdb }, b: { type: duckdb, path: audiences.duckdb } }', 'engines.b', /same file as a/],
    ['engines: { lake: { type: duckdb, concurrency: 0 } }', 'engines.lake.concurrency', /from 1 to/],
    ['engines: { mine: { type: module } }', 'engines.mine.module', /required/],
    ['store: { urls: ["sqlite:a"] }', 'store.urls', /Did you mean url\?/],
    ['store: { url: "sqlite:a", maxQueue: 4 }', 'store.maxQueue', /Did you mean maxQueued\?/],
    ['store: 5', 'store', /must be a URL/],
    ['store: "postgres://u:with/slash@h/d"', 'store', /%2F for \/ .* in a password$/],
    ['store: postgres://u@h/d?statement_timeout=5s', 'store', /whole number of milliseconds as its statement_timeout$/],
    ['store: postgres://u@h/d?sslmode=of', 'store', /one of disable, .* as its sslmode$/],
    ['store: "sqlite://./rollcall.db"', 'store', /must be sqlite:PATH/],
    ['network:', 'network', /is empty: give it a value, or remove it/],
    ['admin: { token: "a\\n" }', 'admin.token', /header/],
    ['admin: { tokens: [{ name: a, token: é, may: [read] }] }', 'admin.tokens[0].token', /header/],
    ['attempts: { keep: "" }', 'attempts.keep', /30d/],
    [`attempts: { keep: ${'9'.repeat(20)}d }`, 'attempts.keep', /at most 36500 days/],
    [`attempts: { keep: ${'9'.repeat(200)}d }`, 'attempts.keep', /at most 36500 days/],
    [`messages: { maxSize: ${'9'.repeat(400)}TB }`, 'messages.maxSize', /size such as/],
    ['alerts: { notify: [] }', 'alerts.notify', /must be a URL, or/],
    ['network: { allow: [300.0.0.0/8] }', 'network.allow[0]', /10\.0\.0\.0\/8/],
    ['admin: { token: "" }', 'admin.token', /empty/],
    ['admin: { token: "${ADMIN_TOKEN}" }', 'admin.token', /needs the environment variable ADMIN_TOKEN/],
    ['admin: { token: fifteen-letters }', 'admin.token', /at least 16 characters/],
    ['admin: { tokens: [{ name: a, token: short, may: [read] }] }', 'admin.tokens[0].token', /at least 16/],
    ['attempts: { keep: forever }', 'attempts.keep', /30d/],
    ['notify: { url: "https://a" }', 'notify', /write alerts: \{ notify: … \}/],
    ['alerts: { notify: { url: "https://a b" } }', 'alerts.notify.url', /spaces/],
    ['alerts: { rule: {} }', 'alerts.rule', /Did you mean rules\?/],
    ['alerts: { rules: { endpointDed: false } }', 'alerts.rules.endpointDed', /Did you mean endpointDead\?/],
    ['alerts: { rules: { runHeld: { aftr: 5m } } }', 'alerts.rules.runHeld.aftr', /Did you mean after\?/],
    ['alerts: { rules: { backlogOld: { olderThan: soon } } }', 'alerts.rules.backlogOld.olderThan', /30d/],
    ['alerts: { rules: { backlogOld: { olderThan: 5 } } }', 'alerts.rules.backlogOld.olderThan', /must be text/],
    ['alerts: { rules: { runHeld: loud } }', 'alerts.rules.runHeld', /true or false/],
    ['alerts: { notify: 5 }', 'alerts.notify', /must be a URL/],
    ['alerts: { notify: { url: "https://a", format: slak } }', 'alerts.notify.format', /Did you mean slack\?/],
    ['alerts: { notify: [{ url: "https://a", secrets: s }] }', 'alerts.notify[0].secrets', /Did you mean secret\?/],
    [
      'alerts: { notify: [{ url: "https://a", name: a }, { url: "https://b", name: a }] }',
      'alerts.notify[1].name',
      /same as that of alerts.notify\[0\]/,
    ],
    ['log: { level: loud }', 'log.level', /debug/],
    ['serviceName: My Service', 'serviceName', /single word/],
  ];
  for (const [top, path, message] of cases) {
    const found = mistakesIn(withParts({ top }));
    t.match(found[path]?.message, message, top);
    t.equal(Object.keys(found).length, 1, `${top}: nothing else is wrong`);
  }
});

t.test('reports files that are not YAML or not a map, with the line', async (t) => {
  t.match(mistakesIn('sources: [\nlisten: {')[''], { line: 2 });
  t.match(mistakesIn('a: 1\na: 2')[''], { line: 2, message: /unique/ });
  t.match(mistakesIn('- a'), { '': { message: /must be a map, not a list/ } });
  t.match(mistakesIn(''), { sources: { message: /required/ } });
  t.throws(() => parse(''), { message: 'rollcall.yaml has a mistake:\n  sources is required' });
});

t.test('shows no secret in a mistake', async (t) => {
  const text = withParts({
    top: 'store: { url: "postgre://u:hunter2@h/d" }\nadmin: { token: [hunter2] }',
    destination: 'webhookUrl: "ftp://u:hunter2@h/"\nsharedSecret: { a: hunter2 }',
  });
  try {
    parse(text);
    t.fail('it has mistakes');
  } catch (error) {
    t.ok(error instanceof ConfigurationError && error.mistakes.length === 4);
    t.notMatch((error as Error).message, /hunter2/);
  }
});

t.test('reports mistakes in the YAML with a line and a hint', async (t) => {
  const sources = 'sources: [{ id: shop, writeKey: k }]\n';
  const cases: readonly (readonly [string, number, RegExp])[] = [
    ['serviceName: *x\n', 2, /^\*x names nothing: .* stand in quotes/],
    ['listen: &x { port: 0, more: *x }\n', 2, /^\*x stands within what it names/],
    [
      `a: &a [x, x]\n${'bcdefghijk'.replaceAll(/./g, (name, at) => `${name}: &${name} [*${'abcdefghij'[at]}, *${'abcdefghij'[at]}]\n`)}`,
      0,
      /aliases/,
    ],
    [
      'audiences:\n  - { name: A }\n  - name: A\n    schedule: */15 * * * *\n',
      5,
      /begins with \* must stand in quotes/,
    ],
    ['audiences:\n  - name: A\n    schedule: * * * * *\n', 4, /begins with \* must stand in quotes/],
    ...['[', '{a: ', '- '].map((part) => [`serviceName:\n ${part.repeat(150)}`, 3, /nested too deeply/] as const),
    [`[${'['.repeat(5_000)}`, 1, /nested too deeply/],
    ['? '.repeat(5_000), 2, /a key must be text/],
    [`serviceName: ${'x:'.repeat(50_000)} *`, 2, /must stand in quotes|Nested/],
    ['listen: { port: ${PORT} }\n', 2, /\$\{…\} must stand in quotes/],
    [`---\n${sources}`, 2, /one document/],
    ['serviceName: !include name.yaml\n', 2, /^unknown tag !include\. .*quotes/],
    ...['00123', '5.10', '5.', '1e3', '0x1F', '+5', '12345678901234567890'].map(
      (number) => [`serviceName: ${number}\n`, 2, /^\S+ means the number \S+\. .*quotes/] as const,
    ),
  ];
  for (const [text, line, message] of cases) {
    const { mistakes } = t.throws(() => parse(sources + text), { code: 'bad_configuration' }) as ConfigurationError;
    t.match(mistakes, [{ path: '', line: line || null, message }], text.slice(0, 80));
    t.equal(mistakes.length, 1, 'once');
  }
});

t.test('suggests performed for did', async (t) => {
  const given = withParts({ audience: 'name: A\nschedule: "@daily"\nwhen: { did: Order }' });
  t.throws(() => parse(given), { code: 'bad_configuration', message: /when.*Did you mean performed\?/ });
});

t.test('accepts a day of the month with any weekday, and a weekday on any day', async (t) => {
  for (const schedule of ['0 9 13 * *', '0 9 * * 5', '0 9 1-31 * fri', '0 9 13 * 0-7', '0 9 13 * */1']) {
    const { audiences } = parse(withParts({ audience: `name: A\nsql: x\nschedule: "${schedule}"` }));
    t.equal(audiences[0]?.schedule, schedule);
  }
});

t.test('expands nicknames of schedules', async (t) => {
  const { audiences } = parse(withParts({ audience: 'name: A\nsql: x\nschedule: "@daily"' }));
  t.equal(audiences[0]?.schedule, '0 0 * * *');
});
