import t from 'tap';
import type { AudienceConfig } from '../../src/config/config.ts';
import { mistakesIn, parse, withParts } from './helpers.ts';

const audience = (when: string) => withParts({ audience: `name: A\nwhen: ${when}`, top: 'eventLog: {}' });
const trait = (value: string) =>
  withParts({ top: `eventLog: {}\ntraits: [{ name: T, source: shop, value: ${value} }]` });

/** [what stands after `when:`, path of the mistake below it, what its message says] */
const CONDITION_MISTAKES: readonly (readonly [string, string, RegExp])[] = [
  ['loyal', '', /must be a map/],
  ['{}', '', /needs one of all, any, not, performed, viewed, screen, sequence, trait, computed, split, inAudience/],
  ['{ perfomed: X }', '.perfomed', /Did you mean performed\?/],
  ['{ performed: X, atleast: 3 }', '.atleast', /Did you mean atLeast\?/],
  ['{ performed: X, atLeast: 0 }', '.atLeast', /whole number from 1/],
  ['{ performed: X, atLeast: 2.5 }', '.atLeast', /whole number/],
  ['{ performed: X, atLeast: 3, atMost: 2 }', '.atMost', /less than atLeast/],
  ['{ performed: X, exactly: 3, atMost: 5 }', '.atMost', /one of the two/],
  ['{ performed: X, exactly: 3, atLeast: 1 }', '.atLeast', /one of the two/],
  ['{ performed: "" }', '.performed', /must not be empty/],
  ['{ performed: 5 }', '.performed', /Put it in quotes/],
  ['{ performed: "a\\0b" }', '.performed', /no database/],
  ['{ performed: X, within: 90 }', '.within', /must be text/],
  ['{ performed: X, within: 90 dyas }', '.within', /such as 30d or 30 days/],
  ['{ performed: X, within: 0d }', '.within', /longer than nothing/],
  ['{ performed: X, within: 40000d }', '.within', /at most 36500 days/],
  ['{ performed: X, since: yesterday }', '.since', /2026-01-31/],
  ['{ performed: X, since: 2026-02-30 }', '.since', /2026-01-31/],
  ['{ performed: X, where: 5 }', '.where', /must be a map/],
  ['{ performed: X, where: { total: 5 } }', '.where.total', /such as properties\.total$/],
  ['{ performed: X, where: { propertys.total: 5 } }', '.where.propertys.total', /such as properties\.total$/],
  ['{ performed: X, where: { properties.: 5 } }', '.where.properties.', /is no path/],
  ['{ performed: X, where: { properties.a..b: 5 } }', '.where.properties.a..b', /is no path/],
  ['{ performed: X, where: { properties.a: { gtt: 5 } } }', '.where.properties.a.gtt', /Did you mean gte?\?/],
  ['{ performed: X, where: { properties.a: { gt: true } } }', '.where.properties.a.gt', /number, or text/],
  ['{ performed: X, where: { properties.a: { is: null } } }', '.where.properties.a.is', /exists: false/],
  ['{ performed: X, where: { properties.a: null } }', '.where.properties.a', /must be a value, or operators/],
  ['{ performed: X, where: { properties.a: [1] } }', '.where.properties.a', /must be a value, or operators/],
  ['{ performed: X, where: { properties.a: {} } }', '.where.properties.a', /needs an operator/],
  ['{ performed: X, where: { properties.a: { in: [] } } }', '.where.properties.a.in', /at least one value/],
  ['{ performed: X, where: { properties.a: { contains: "" } } }', '.where.properties.a.contains', /must not be empty/],
  ['{ performed: X, is: 5 }', '.is', /belongs to trait, not to performed/],
  ['{ trait: plan }', '.trait', /needs an operator/],
  ['{ trait: plan, is: pro, within: 5d }', '.within', /belongs to performed, not to trait/],
  ['{ trait: plan, is: .nan }', '.is', /must be text, a number/],
  ['{ trait: a..b, is: 5 }', '.trait', /is no path/],
  ['{ trait: plan, is: pro, performed: X }', '.trait', /cannot stand beside performed/],
  ['{ computed: ltv, gt: 5 }', '.computed', /names the computed trait "ltv", which there is not/],
  ['{ computed: a, gt: 5 }', '.computed', /names the audience a: give `column` too/],
  ['{ all: [] }', '.all', /at least one condition/],
  ['{ all: { performed: X } }', '.all', /must be a list/],
  ['{ all: [{ performed: X }, { any: [{ not: { trait: x } }] }] }', '.all[1].any[0].not.trait', /needs an operator/],
  ['{ not: [{ performed: X }] }', '.not', /must be a map, not a list/],
  ['{ inAudience: b }', '.inAudience', /names the audience "b", which there is not/],
  ['{ inAudience: a }', '.inAudience', /makes a circle: a → a/],
  ['{ not: { all: [{ inAudience: a }] } }', '.not.all[0].inAudience', /circle/],
  ['{ performed: [] }', '.performed', /at least one name/],
  ['{ performed: { any: false } }', '.performed.any', /true/],
  ['{ viewed: A, screen: B }', '.screen', /cannot stand beside viewed/],
  ['{ performed: X, between: [7d, 30d] }', '.between', /begin with the longer one/],
  ['{ performed: X, between: [30d] }', '.between', /two durations/],
  ['{ performed: X, within: 3d, between: [30d, 7d] }', '.between', /cannot stand beside within/],
  ['{ performed: X, firstTime: true }', '.firstTime', /needs a window/],
  ['{ performed: X, firstTime: true, within: 3d, atLeast: 2 }', '.atLeast', /cannot stand beside firstTime/],
  ['{ sequence: [{ performed: X }] }', '.sequence', /at least two steps/],
  ['{ sequence: [{ performed: X }, { performd: Y }] }', '.sequence[1].performd', /Did you mean performed\?/],
  ['{ sequence: [{ performed: X }, { performed: Y, within: 3d }] }', '.sequence[1].within', /use after/],
  ['{ sequence: [{ performed: X }, { performed: Y, atLeast: 3 }] }', '.sequence[1].atLeast', /a step is one event/],
  [
    '{ sequence: [{ performed: X }, { where: { properties.a: 1 } }] }',
    '.sequence[1]',
    /needs one of performed, viewed/,
  ],
  ['{ sequence: [{ performed: X }, { performed: Y, viewed: Z }] }', '.sequence[1]', /needs one of performed, viewed/],
  ['{ sequence: [{ performed: X, after: { atMost: 1h } }, { performed: Y }] }', '.sequence[0].after', /no step before/],
  ['{ sequence: [{ performed: X }, { not: { performed: Y } }] }', '.sequence[1].not', /needs after.atMost/],
  [
    '{ sequence: [{ performed: X }, { not: { performed: Y }, after: { atMost: 1h } }, { performed: Z }] }',
    '.sequence[1].not',
    /must be the last step/,
  ],
  [
    '{ sequence: [{ performed: X }, { not: { performed: Y }, after: { atLeast: 1m, atMost: 1h } }] }',
    '.sequence[1].after',
    /atMost only/,
  ],
  [
    '{ sequence: [{ performed: X }, { performed: Y, after: { atLeast: 2h, atMost: 1h } }] }',
    '.sequence[1].after',
    /longer than its atMost/,
  ],
  ['{ trait: plan, is: { trait: a..b } }', '.is.trait', /is no path/],
  ['{ trait: plan, is: { property: properties.a } }', '.is', /a trait has no event/],
  ['{ trait: plan, is: {} }', '.is', /needs trait or property/],
  ['{ trait: plan, in: { trait: x } }', '.in', /must be a list/],
  ['{ trait: plan, before: soon }', '.before', /2026-01-31/],
  ['{ trait: plan, withinLast: 0d }', '.withinLast', /longer than nothing/],
  ['{ trait: plan, startsWith: "" }', '.startsWith', /must not be empty/],
  [
    '{ performed: X, where: { properties.a: { gt: { property: total } } } }',
    '.where.properties.a.gt.property',
    /such as/,
  ],
  ['{ split: { name: spring, from: 50, to: 50 } }', '.split', /greater than its from/],
  ['{ split: { name: spring, from: 0, to: 101 } }', '.split.to', /from 0 to 100/],
  ['{ split: { name: spring, from: 0, to: 33.333 } }', '.split.to', /two decimals/],
  [`{ any: [${Array.from({ length: 201 }, () => '{ performed: X }').join(', ')}] }`, '', /more than 200 conditions/],
];

t.test('reports mistakes in a condition with their place and a hint', async (t) => {
  for (const [when, place, message] of CONDITION_MISTAKES) {
    const found = mistakesIn(audience(when));
    t.same(Object.keys(found), [`audiences[0].when${place}`], when);
    t.match(Object.values(found)[0], { line: 10, message }, when);
  }
});

/** [what stands after `value:`, path of the mistake below it, what its message says] */
const VALUE_MISTAKES: readonly (readonly [string, string, RegExp])[] = [
  ['{}', '', /needs one of count, sum, average/],
  ['{ cuont: X }', '.cuont', /Did you mean count\?/],
  ['{ count: X, sum: X, of: properties.a }', '.sum', /cannot stand beside count/],
  ['{ count: X, of: properties.a }', '.of', /uniqueCount/],
  ['{ sum: X }', '.sum', /needs of: .*properties\.total/],
  ['{ sum: X, of: total }', '.of', /such as properties\.total$/],
  ['{ sum: X, of: properties.a, within: 1 fortnight }', '.within', /30 days/],
];

t.test('reports mistakes in a value with their place and a hint', async (t) => {
  for (const [value, place, message] of VALUE_MISTAKES) {
    const found = mistakesIn(trait(value));
    t.same(Object.keys(found), [`traits[0].value${place}`], value);
    t.match(Object.values(found)[0]?.message, message, value);
  }
});

t.test('accepts a definition as SQL or short, not both, and only of a possible kind', async (t) => {
  const found = (text: string, top = '') => mistakesIn(withParts({ audience: text, top }));
  t.match(found('name: A')['audiences[0].sql']?.message, /required, or when/);
  t.match(found('name: A\nsql: x\nwhen: { performed: X }')['audiences[0].when']?.message, /one of the two/);
  t.match(found('name: A\nvalue: { count: X }')['audiences[0].value']?.message, /not a known key/);
  t.match(found('name: A\nsql: x', 'traits: [{ name: T, source: shop }]')['traits[0].sql']?.message, /or value/);
  const foreign = 'engines: { odd: { type: module, module: ./x.js } }';
  t.match(found('name: A\nwhen: { performed: X }', foreign)['audiences[0].when']?.message, /duckdb or postgres/);
});

t.test('requires short definitions of live audiences and all they refer to, and no schedule', async (t) => {
  const found = (text: string, top = '') => mistakesIn(withParts({ audience: text, top: `eventLog: {}\n${top}` }));
  t.match(found('name: A\nsql: x\nlive: true')['audiences[0].live']?.message, /needs a short definition/);
  const scheduled = found('name: A\nwhen: { performed: X }\nlive: true\nschedule: "* * * * *"');
  t.match(scheduled['audiences[0].schedule']?.message, /computed all the time/);
  const live = 'name: A\nwhen: { performed: X }\nlive: true\n';
  t.match(found(`${live}timezone: Europe/Berlin`)['audiences[0].timezone']?.message, /has no schedule/);
  t.match(found(`${live}expect: { minRows: 5 }`)['audiences[0].expect'], { message: /`guard` holds/, line: Number });
  t.match(
    found('name: A\nwhen: { performed: X }\nlive: true\nsql: y')['audiences[0].live']?.message,
    /short definition/,
  );
  t.match(
    found('name: A\nlive: true\ndbt: { project: ., model: a }')['audiences[0].live']?.message,
    /short definition/,
  );
  const file = (b: string) => `
sources: [{ id: shop, writeKey: wk }]
eventLog: {}
audiences:
  - { name: A, source: shop, live: true, when: { inAudience: b } }
  - { name: B, source: shop, when: { not: { inAudience: c } } }
  - { name: C, source: shop, ${b} }`;
  t.same(mistakesIn(file('when: { performed: X }')), {});
  t.same(mistakesIn(file('sql: x')), {}, 'its members as last synced');
});

t.test('checks audiences that refer to each other together', async (t) => {
  const file = (b: string, rest = '') => `
sources: [{ id: shop, writeKey: wk }]
engines: { one: { type: duckdb, path: a }, two: { type: duckdb, path: b } }
eventLog: {}
audiences:
  - { name: A, source: shop, when: { inAudience: b } }
  - { name: B, source: shop, ${b} }
  - { name: C, source: shop, when: { inAudience: a } }
${rest}`;
  t.same(mistakesIn(file('sql: x')), {});
  const circle = mistakesIn(file('when: { not: { inAudience: c } }'));
  t.match(circle['audiences[0].when.inAudience']?.message, /makes a circle: a → b → c → a/);
  t.match(circle['audiences[1].when.not.inAudience'], { line: 7, message: /b → c → a → b/ });
  t.equal(Object.keys(circle).length, 3, 'each of them is named');
  const engine = mistakesIn(file('sql: x, engine: two'));
  t.match(engine['audiences[0].when.inAudience']?.message, /engine two, and a by one\. Give both the same engine/);
  const ofTrait = mistakesIn(file('when: { inAudience: t }', 'traits: [{ name: T, source: shop, sql: x }]'));
  t.match(ofTrait['audiences[1].when.inAudience']?.message, /computed trait/);
});

t.test('checks computed values together', async (t) => {
  const file = (when: string, rest = '') => `
sources: [{ id: shop, writeKey: wk }]
engines: { one: { type: duckdb, path: a }, two: { type: duckdb, path: b } }
eventLog: {}
audiences:
  - { name: A, source: shop, when: { computed: ${when}${/ gt:/.test(when) ? '' : ', gt: 5'} } }
  - { name: B, source: shop, sql: x, with: [email] }
  - { name: C, source: shop, when: { all: [{ inAudience: a }] }, with: { email: { trait: email } } }
  - { name: D, source: shop, live: true, when: { performed: X } }
${rest}`;
  const faultOf = (when: string, rest = '') => mistakesIn(file(when, rest))['audiences[0].when.computed']?.message;
  const traits = (rest: string) => `traits: [{ name: T, source: shop, ${rest} }]`;
  t.same(mistakesIn(file('t', traits('sql: x'))), {});
  const own = (when: string) => Object.entries(mistakesIn(file(when, traits('sql: x'))));
  t.match(own('t, within: 3d'), [['audiences[0].when.within', { message: /belongs to performed, not to computed/ }]]);
  t.match(own('t, lt: { property: properties.a }'), [['audiences[0].when.lt', { message: /cannot be a property/ }]]);
  t.match(own('t, gt: true'), [['audiences[0].when.gt', {}]]);
  t.same(mistakesIn(file('t, column: gold', traits('sql: x'))), {}, 'the columns of SQL are not known');
  t.same(
    mistakesIn(file('t', traits('value: { count: X }, live: true, engine: two'))),
    {},
    'computed where it is named',
  );
  t.same(mistakesIn(file('b, column: email')), {});
  t.match(faultOf('tt', traits('sql: x')), /names the computed trait "tt", which there is not\. Did you mean t\?/);
  t.match(faultOf('t, column: gold', traits('value: { count: X }')), /needs no column: t has one value/);
  t.match(faultOf('b'), /names the audience b: give `column` too\. It has email/);
  t.match(faultOf('b, column: mail'), /needs another column: b has no mail\. It has email/);
  t.match(faultOf('d, column: email'), /names the live audience d, whose columns are traits/);
  t.match(faultOf('t', traits('sql: x, engine: two')), /kept by the engine two, and a is computed by one/);
  t.match(faultOf('c, column: email'), /makes a circle: a → c → a/);
});

t.test('requires an engine with the event log for short definitions', async (t) => {
  const found = (top: string) => mistakesIn(withParts({ audience: 'name: A\nwhen: { performed: X }', top }));
  const path = 'audiences[0].when';
  t.match(found('')[path], { line: 10, message: /not kept\. Add eventLog: \{\}/ });
  t.same(found('eventLog: {}'), {});
  const postgres = 'engines: { w: { type: postgres, url: "postgres://h/d" } }';
  t.match(found(`eventLog: {}\n${postgres}`)[path]?.message, /engine w does not see/);
  t.same(found(`eventLog: {}\nstore: postgres://u@h/d\n${postgres}`), {});
  t.match(found(`eventLog: {}\nstore: postgres://u@h/other\n${postgres}`)[path]?.message, /does not see/);
});

t.test('reports mistakes about the event log and in files together with all others', async (t) => {
  const file = (store: string, engine: string, log = '') => `
serviceNam: x
store: ${store}
network: { ca: gone.pem }
engines: { a: ${engine}, b: { type: duckdb }, c: { type: duckdb } }
sources: [{ id: shop, writeKey: wk }]
audiences: [{ name: A, source: shop, when: { performed: X } }]
traits: [{ name: T, source: shp, sql: select user_id from rollcall_tracks }]
${log}`;
  const paths = (...given: Parameters<typeof file>) => Object.keys(mistakesIn(file(...given)));
  const others = ['network.ca[0]', 'engines.c', 'serviceNam', 'traits[0].source'];
  const log = ['audiences[0].when', 'traits[0].sql'];
  const postgres = '{ type: postgres, url: "postgres://h/d" }';
  t.same(new Set(paths('sqlite:./a.db', '{ type: duckdb, path: a }')), new Set([...others, ...log]), 'no log is kept');
  t.same(new Set(paths('sqlite:./a.db', postgres, 'eventLog: {}')), new Set([...others, ...log]), 'nobody sees it');
  t.same(new Set(paths('postgres://h/d', postgres, 'eventLog: {}')), new Set(others));
  const known = (path: string) => new Set([...others, path]);
  t.same(new Set(paths(`\${STORE_URL}`, postgres, 'eventLog: {}')), known('store'), 'nobody knows the store');
  t.same(
    new Set(paths('postgres://h/d', '{ type: postgres }', 'eventLog: {}')),
    known('engines.a.url'),
    'nor the engine',
  );
  t.same(
    new Set(paths('postgres://h/d', postgres, 'eventLog: { kep: 3d }')),
    known('eventLog.kep'),
    'the log is meant',
  );
});

t.test('reads valid definitions', async (t) => {
  const read = (when: string) => (parse(audience(when)).audiences[0] as AudienceConfig).when;
  const activity = { kind: 'track', names: ['X'], within: null, until: 0, since: null, where: [] };
  t.strictSame(read('{ performed: X }'), { performed: activity, least: 1, most: null });
  t.strictSame(read('{ performed: X, atMost: 2 }'), { performed: activity, least: 0, most: 2 });
  t.strictSame(read('{ performed: X, atLeast: "2", atMost: 2 }'), { performed: activity, least: 2, most: 2 });
  t.match(read('{ performed: X, within: 90 days, since: 2026-01-31T01:00+01:00 }'), {
    performed: { within: 90 * 86_400_000, since: Date.parse('2026-01-31T00:00:00Z') },
  });
  t.match(read('{ viewed: [A, B], between: [30 days, 7 days] }'), {
    performed: { kind: 'page', names: ['A', 'B'], within: 30 * 86_400_000, until: 7 * 86_400_000 },
  });
  t.match(read('{ screen: { any: true }, firstTime: true, since: 2026-01-01 }'), {
    firstTime: { kind: 'screen', names: null, since: Date.parse('2026-01-01') },
  });
  t.match(read('{ trait: due, is: { trait: a.b }, before: 2026-01-31T02:00+02:00, withinNext: 1 day }'), {
    tests: [
      { operator: 'is', operand: { trait: ['a', 'b'] } },
      { operator: 'before', operand: '2026-01-31T00:00:00.000Z' },
      { operator: 'withinNext', operand: 86_400_000 },
    ],
  });
  t.strictSame(read('{ split: { name: spring, from: 0.29, to: 33.33 } }'), {
    split: { name: 'spring', from: 29, to: 3_333 },
  });
  const last = '{ not: { performed: X }, after: { atMost: 1 hour } }';
  t.strictSame(
    read(`{ sequence: [{ viewed: A }, { performed: X, after: { atLeast: 1m } }, ${last}], between: [2d, 1d] }`),
    {
      sequence: {
        steps: [
          {
            activity: { ...activity, kind: 'page', names: ['A'], within: 2 * 86_400_000, until: 86_400_000 },
            ...{ atLeast: 0, atMost: null },
          },
          { activity: { ...activity, within: 2 * 86_400_000 }, atLeast: 60_000, atMost: null },
        ],
        not: { activity: { ...activity, within: 2 * 86_400_000 }, atMost: 3_600_000 },
      },
    },
  );
  t.strictSame(read(`{ trait: 'a."b.c"."d\\"e"', is: 2026-01-31 }`), {
    trait: ['a', 'b.c', 'd"e'],
    tests: [{ operator: 'is', operand: '2026-01-31' }],
  });
  t.strictSame(read('{ performed: X, where: { properties.a: yes, context.b: { gt: 1, exists: true } } }'), {
    performed: {
      ...activity,
      where: [
        { part: 'properties', path: ['a'], tests: [{ operator: 'is', operand: 'yes' }] },
        {
          part: 'context',
          path: ['b'],
          tests: [
            { operator: 'gt', operand: 1 },
            { operator: 'exists', operand: true },
          ],
        },
      ],
    },
    least: 1,
    most: null,
  });
});

const KEPT = (definitions: string, top = 'eventLog: { keep: 30d }') => `
store: sqlite:./rollcall.db
${top}
engines: { lake: { type: duckdb, path: ./a.duckdb }, far: { type: postgres, url: "postgres://h/d" } }
sources: [{ id: personas, writeKey: k }]
${definitions}
`;
const kept = (definition: string) =>
  `audiences:\n  - name: A\n    source: personas\n    schedule: '0 3 * * *'\n    ${definition}`;

t.test('warns of a window longer than the log, with its line and what to do', (t) => {
  const { warnings } = parse(
    KEPT(`${kept(`when:
      any:
        - { performed: A, within: 30d }
        - not:
            performed: A
            within: 31d`)}
traits:
  - { name: B, source: personas, schedule: '0 3 * * *', value: { count: A, within: 2000h } }`),
  );
  t.match(warnings, [
    {
      path: 'audiences[0].when.any[1].not.within',
      line: 15,
      message: /^is 31 days, but the log keeps 30 days\..* raise eventLog\.keep/,
    },
    { path: 'traits[0].value.within', line: 17, message: /^is 83 days/ },
  ]);
  t.equal(warnings.length, 2);
  t.end();
});

t.test('refuses or warns of SQL over the views if its engine cannot read the log', (t) => {
  const warned = (sql: string, top?: string) =>
    parse(KEPT(kept(sql), top)).warnings.map(({ path, line, message }) => `${line} ${path} ${message}`);
  const none = 'network: {}';
  const reads = (view: string) => `sql: select user_id from ${view} group by 1`;
  t.same(warned(reads('tracks')), [], 'it sees it');
  t.match(warned(`engine: far\n    ${reads('users')}`), [
    /^11 audiences\[0\]\.sql reads users.*engine far does not see/,
  ]);
  t.match(warned(reads('tracks'), none), [/reads tracks.*not kept\. Add eventLog/]);
  t.same(warned(reads('users'), none), [], 'a table of theirs');
  t.same(warned(`engine: far\n    sql: select 'from tracks' as user_id -- from tracks`), [], 'text and comments');
  const refused = (sql: string, top?: string) => mistakesIn(KEPT(kept(sql), top))['audiences[0].sql'];
  t.match(refused(reads('rollcall_events'), none), { line: 10, message: /not kept/ });
  t.match(refused(`engine: far\n    ${reads('rollcall_events.tracks')}`), {
    line: 11,
    message: /engine far does not see/,
  });
  t.end();
});

t.test('takes traits of the person as columns, by schedule and live', (t) => {
  for (const live of [false, true]) {
    const definition = `name: A\nlive: ${live}\nwhen: { performed: X }\nwith: { email: { trait: mail }, plan: { trait: plan } }\nsends: any`;
    const { audiences } = parse(withParts({ audience: definition, top: 'eventLog: {}' }));
    t.match(audiences, [{ with: { email: { trait: 'mail' }, plan: { trait: 'plan' } }, sendsColumns: true }]);
  }
  const list = 'name: A\nwhen: { performed: X }\nwith: [email]';
  const mistakes = Object.values(mistakesIn(withParts({ audience: list, top: 'eventLog: {}' })));
  t.match(mistakes, [{ message: /is a map for a short definition/ }]);
  t.end();
});

t.test('takes a dbt model in place of SQL, and expects builds of it', async (t) => {
  const of = (text: string) =>
    mistakesIn(`sources: [{ id: shop, writeKey: wk }]\naudiences: [{ name: A, source: shop, ${text} }]`);
  const dbt = 'dbt: { project: ., model: a }';
  for (const expect of ['dbt: pass', 'dbt: pass, within: 26h']) t.same(of(`${dbt}, expect: { ${expect} }`), {});
  t.same(of(`${dbt}, with: [email]`), {});
  for (const [text, path, message] of [
    [`${dbt}, sql: select 1`, 'dbt', /cannot stand beside sql/],
    ['sql: select 1, expect: { dbt: pass }', 'expect.dbt', /needs `dbt`, which names the model/],
    [`${dbt}, expect: { dbt: passed }`, 'expect.dbt', /must be pass/],
    [`${dbt}, expect: { dbt: }`, 'expect.dbt', /is empty/],
    [`${dbt}, expect: { dbt: pass, within: 26 }`, 'expect.within', /must be text such as/],
    [`${dbt}, expect: { within: 26h }`, 'expect.within', /needs `dbt: pass`/],
    [`${dbt}, with: { email: { trait: email } }`, 'with', /is a list of columns of the SQL/],
    ['dbt: { model: a }', 'dbt.project', /is required/],
    ['dbt: { project: ., model: "" }', 'dbt.model', /must not be empty/],
    ['name: B', 'sql', /is required, or when, sqlFile or dbt in its place/],
  ] as const) {
    const found = of(text.replace('name: B', 'key: b'));
    t.match(found[`audiences[0].${path}`]?.message, message, text);
  }
});
