// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables of the configuration file
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { loadConfig } from '../../src/config/load.ts';
import { ConfigurationError, showMistake } from '../../src/config/mistakes.ts';
import { withParts } from './helpers.ts';

const main = (include: string) => withParts({ top: `include: ${include}` });
const audience = (name: string, rest = 'sql: select 1 as user_id') =>
  `audiences:\n  - name: ${name}\n    source: shop\n    ${rest}\n`;

/** The mistakes of a configuration in a folder, as they are shown there. */
function mistakesOf(folder: string, env = {}): readonly string[] {
  try {
    loadConfig(join(folder, 'rollcall.yaml'), env);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    return error.mistakes.map((mistake) => showMistake(mistake).replaceAll(`${folder}/`, ''));
  }
}

t.test('appends what included files have, in their order', async (t) => {
  const folder = t.testdir({
    'rollcall.yaml': main('[teams/*.yaml, "${EXTRA:-more}/x.yaml", teams/a.yaml]'),
    teams: {
      'b.yaml': audience('From B'),
      'a.yaml': `\uFEFF${audience('From A').replaceAll('\n', '\r\n')}`,
      '.hidden.yaml': 'no: such key',
      'note.txt': 'no: such key',
      'empty.yaml': '# nothing yet\n',
    },
    more: {
      'x.yaml': `
sources: [{ id: app, writeKey: "\${APP_KEY}" }]
destinations: [{ name: app, sources: [app], webhookUrl: https://app.example.com/ }]
engines: { lake: { type: duckdb, path: ./app.duckdb } }
traits: [{ name: Spent, source: app, sql: select 1 as user_id }]
`,
    },
  });
  const config = loadConfig(join(folder, 'rollcall.yaml'), { APP_KEY: 'k' });
  t.same(
    config.audiences.map(({ key }) => key),
    ['everyone', 'from_a', 'from_b'],
  );
  t.match(config, {
    sources: [{ id: 'shop' }, { id: 'app', writeKey: 'k' }],
    destinations: [{ name: 'crm' }, { name: 'app' }],
    traits: [{ key: 'spent' }],
  });
  t.match(config.engines, { lake: { path: join(folder, 'app.duckdb') } }, 'paths are of the main folder');
  t.match(config.sourceFiles, [/rollcall\.yaml$/, /teams\/a\.yaml$/, /b\.yaml$/, /empty\.yaml$/, /x\.yaml$/]);
  t.match(config.places.get('from_b'), { file: join(folder, 'teams/b.yaml'), line: 2, column: 5 });
});

t.test('names file, line and column of mistakes, and both places of a name given twice', async (t) => {
  const folder = t.testdir({
    'rollcall.yaml': main('[teams/*.yaml]'),
    teams: {
      'a.yaml': `${audience('Everyone')}destinations:\n  - { name: crm, sources: [shpo], webhookUrl: https://x.example.com/ }\n`,
      'b.yaml': 'engines:\n  lake: { type: duckdb }\n',
      'c.yaml':
        'sources: [{ id: shop, writeKey: other }, { id: app, writeKey: wk }]\nengines:\n  lake: { type: duckdb }\n',
    },
  });
  t.same(mistakesOf(folder), [
    'teams/a.yaml:2:5: audiences[0].name gives the key everyone, as audiences[0] (rollcall.yaml:8:5) does. Set another key on one of them',
    'teams/a.yaml:6:7: destinations[0].name is the same as that of destinations[0] (rollcall.yaml:4:5)',
    'teams/a.yaml:6:28: destinations[0].sources[0] names the source "shpo", which there is not. Did you mean shop?',
    'teams/c.yaml:1:13: sources[0].id is the same as that of sources[0] (rollcall.yaml:2:11)',
    'teams/c.yaml:1:53: sources[1].writeKey is the same as that of sources[0] (rollcall.yaml:2:11)',
    'teams/c.yaml:3:3: engines.lake is an engine of teams/b.yaml:2:3 already',
  ]);
});

t.test('refuses what is no included file, with the place', async (t) => {
  const folder = t.testdir({
    'rollcall.yaml': main('["*.yaml", none/*.yaml, teams, teams/*, "a/**", "{a,b}.yaml"]'),
    'utf-16.yaml': Buffer.from('audiences: []', 'utf16le').fill(0xff, 0, 2),
    teams: {
      folder: {},
      'include.yaml': 'include: [a.yaml]\nstore: sqlite:./x.db\naudience: []\n',
      'list.yaml': '- a\n',
      'syntax.yaml': 'audiences:\n  - name: [\n',
      'shape.yaml': 'audiences: { name: A }\nengines: []\ntraits:\n',
    },
  });
  symlinkSync('nowhere', join(folder, 'teams/dangling.yaml'));
  symlinkSync('loop.yaml', join(folder, 'teams/loop.yaml'));
  execFileSync('mkfifo', [join(folder, 'teams/pipe.yaml')]);
  writeFileSync(join(folder, 'teams/large.yaml'), `# ${'x'.repeat(5 * 2 ** 20)}\n`);
  t.match(mistakesOf(folder), [
    /^rollcall\.yaml:11:11: include\[0\] matches this file itself\. Put the others into a folder/,
    /^rollcall\.yaml:11:21: include\[1\] matches no file: none/,
    /^utf-16\.yaml: is not UTF-8/,
    /^teams: is a folder/,
    /^teams\/dangling\.yaml: cannot be read: there is no such file/,
    /^teams\/folder: is a folder/,
    /^teams\/include\.yaml:1:1: include cannot stand in an included file/,
    /^teams\/include\.yaml:2:1: store belongs in the main file/,
    /^teams\/include\.yaml:3:1: audience is not a known key. Did you mean audiences/,
    /^teams\/large\.yaml: is larger than 4 MiB/,
    /^teams\/list\.yaml: must be a map, not a list/,
    /^teams\/loop\.yaml: cannot be read: ELOOP/,
    /^teams\/pipe\.yaml: is no regular file/,
    /^teams\/shape\.yaml:1:1: audiences must be a list, not a map/,
    /^teams\/shape\.yaml:2:1: engines must be a map, not a list/,
    /^teams\/shape\.yaml:3:1: traits is empty/,
    /^teams\/syntax\.yaml:\d:\d+: /,
  ]);
  writeFileSync(join(folder, 'rollcall.yaml'), main('["${NONE}/x.yaml"]'));
  t.match(mistakesOf(folder), [/rollcall\.yaml:11:11: include\[0\] needs the environment variable NONE/]);
  writeFileSync(join(folder, 'rollcall.yaml'), main('["a/**/*.yaml", "{a,b}.yaml", 5]'));
  t.match(mistakesOf(folder), [
    /include\[0\] may not have \*\*/,
    /include\[1\] may have \* and \? only/,
    /include\[2\]/,
  ]);
});

t.test('is bounded in files, also where folders have many', async (t) => {
  const folder = t.testdir({ 'rollcall.yaml': main('["many/*/*"]'), many: {} });
  for (let each = 0; each < 40; each += 1) {
    mkdirSync(join(folder, `many/${each}`));
    for (let file = 0; file < 30; file += 1) writeFileSync(join(folder, `many/${each}/${file}.yaml`), '');
  }
  t.match(mistakesOf(folder), [/include\[0\] matches more than 1000 files/]);
});

t.test('reads SQL files relative to their YAML, without filling in variables', async (t) => {
  const folder = t.testdir({
    'rollcall.yaml': main('[teams/*.yaml]'),
    'events.sql': 'select user_id from rollcall_events.tracks',
    teams: {
      'a.yaml':
        audience('A', 'sqlFile: ${FILE:-sql/a.sql}') +
        audience('B', 'sqlFile: ../events.sql').replace('audiences:\n', ''),
      sql: { 'a.sql': "\uFEFFselect '${NAME} $${NAME}' as user_id\r\n" },
    },
  });
  const found = mistakesOf(folder);
  t.match(found, [/^teams\/a\.yaml:7:5: audiences\[1\]\.sqlFile .*not kept/], 'mistakes of its text');
  writeFileSync(join(folder, 'events.sql'), 'select 2 as user_id');
  const config = loadConfig(join(folder, 'rollcall.yaml'), {});
  t.same(
    config.audiences.map(({ sql }) => sql),
    ['select 1 as user_id', "select '${NAME} $${NAME}' as user_id\r\n", 'select 2 as user_id'],
  );
  const later = 2_000_000_000;
  utimesSync(join(folder, 'events.sql'), later, later);
  t.equal(loadConfig(join(folder, 'rollcall.yaml'), {}).changedAt, later * 1000, 'the newest file counts');
  writeFileSync(join(folder, 'teams/a.yaml'), audience('A', 'sqlFile: none.sql\n    sql: select 1'));
  t.match(mistakesOf(folder), [/a\.yaml:4:5: audiences\[0\]\.sqlFile cannot stand beside sql/]);
  for (const [file, says] of [
    ['none.sql', /4:5: audiences\[0\]\.sqlFile names none\.sql, which cannot be read: there is no such file/],
    ['sql', /sqlFile names sql, which is a folder/],
    ['""', /sqlFile must not be empty/],
  ] as const) {
    writeFileSync(join(folder, 'teams/a.yaml'), audience('A', `sqlFile: ${file}`));
    t.match(mistakesOf(folder), [says]);
  }
});

t.test('finds dbt projects relative to the YAML that names them', async (t) => {
  const folder = t.testdir({
    'rollcall.yaml': `${main('[teams/*.yaml]')}traits: [{ name: T, source: shop, dbt: { project: ., model: t } }]\n`,
    teams: { 'a.yaml': audience('A', 'dbt: { project: "${PROJECT:-../analytics}", model: a }') },
  });
  const { audiences, traits, written } = loadConfig(join(folder, 'rollcall.yaml'), {});
  t.match([audiences[1]?.dbt, audiences[1]?.sql], [{ project: join(folder, 'analytics'), model: 'a' }, undefined]);
  t.match(traits[0]?.dbt, { project: folder, model: 't' });
  t.match(written.get('t'), { language: 'yaml', text: 'dbt:\n  project: .\n  model: t' }, 'as the pages show it');
});

/** A small generator, so that a failure can be played again. */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

t.test('loads 300 audiences over 40 files in under a second, and finds a mistake in any of them', async (t) => {
  const files = 40;
  const each = (file: number) => Array.from({ length: file < 20 ? 7 : 8 }, (_, index) => `${file}_${index}`);
  const text = (file: number) =>
    `audiences:\n${each(file)
      .map(
        (name) => `  - name: Audience ${name}
    description: The people of ${name}
    owner: team ${file}
    labels: { tier: gold }
    source: shop
    schedule: "*/15 * * * *"
    guard: { maxExits: 20% }
    sql: |
      select user_id from orders
      where audience = '${name}'
`,
      )
      .join('')}`;
  const folder = t.testdir({
    'rollcall.yaml': main('[teams/*.yaml]'),
    teams: Object.fromEntries(Array.from({ length: files }, (_, file) => [`${file}.yaml`, text(file)])),
  });
  // CPU, since the machine may have other work.
  const times = [1, 2, 3].map(() => {
    const started = process.cpuUsage();
    t.equal(loadConfig(join(folder, 'rollcall.yaml'), {}).audiences.length, 301);
    const { user, system } = process.cpuUsage(started);
    return (user + system) / 1000;
  });
  t.comment(`loaded in ${times.map(Math.round).join(', ')} ms`);
  t.ok(Math.min(...times) < 1_000, `${times} ms`);

  const below = random(50);
  const wrongs = [
    ['    source: shop', '    source: shpo', 'source', 5],
    ['    owner: team', '    ownr: team', 'ownr', 5],
    ['    schedule: "*/15 * * * *"', '    schedule: "*/75 * * * *"', 'schedule', 5],
    ['{ maxExits: 20% }', '{ maxExits: 200% }', 'guard.maxExits', 14],
    ['    labels: { tier: gold }', '    labels: { tier: 00123 }', null, 21],
  ] as const;
  for (let file = 0; file < files; file += 1) {
    const path = join(folder, `teams/${file}.yaml`);
    const whole = text(file);
    const [right, wrong, part, column] = wrongs[below(wrongs.length)] ?? wrongs[0];
    const index = below(each(file).length);
    const parts = whole.split(right);
    const broken = parts.slice(0, index + 1).join(right) + wrong + parts.slice(index + 1).join(right);
    writeFileSync(path, broken);
    const line = parts
      .slice(0, index + 1)
      .join(right)
      .split('\n').length;
    const place = `teams/${file}.yaml:${line}:${column}: ${part === null ? '' : `audiences[${index}].${part} `}`;
    const [found = '', ...others] = mistakesOf(folder);
    t.ok(found.startsWith(place) && others.length === 0, `${place}: ${found}`);
    writeFileSync(path, whole);
  }
  rmSync(join(folder, 'teams/7.yaml'));
  t.equal(loadConfig(join(folder, 'rollcall.yaml'), {}).audiences.length, 294);
  t.equal(readFileSync(join(folder, 'teams/8.yaml'), 'utf8'), text(8));
});
