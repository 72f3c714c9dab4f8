import { readFile } from 'node:fs/promises';
import t from 'tap';
import { instantOption } from '../../src/cli/options.ts';
import { jsonLines, rollcall, workspace } from './helpers.ts';

t.test('the help names every command, the exit codes, and how to run it in a checkout', async (t) => {
  const { code, stdout, stderr } = await rollcall(['--help']);
  t.equal(code, 0);
  t.equal(stderr, '');
  const commands =
    'start serve sync plan runs approve reject why retire resync forget dead-letters endpoints attempts listen config migrate backup doctor';
  for (const command of commands.split(' ')) t.match(stdout, new RegExp(`^  ${command} `, 'm'));
  t.match(stdout, /3 {2}held by a guard or an expectation/);
  t.match(stdout, /npm run -s rollcall -- /);
});

t.test('every command explains itself', async (t) => {
  const commands = [
    'sync',
    'plan',
    'listen',
    'forget',
    'config check',
    'dead-letters replay',
    'endpoints resume',
    'migrate',
    'backup',
  ];
  const helps = await Promise.all(commands.map((command) => rollcall([...command.split(' '), '--help'])));
  for (const [index, { code, stdout }] of helps.entries()) {
    t.equal(code, 0);
    t.match(stdout, new RegExp(`^Usage: rollcall ${commands[index]} `));
    t.match(stdout, /Examples?:\n {2}\$ rollcall /, `${commands[index]} has an example`);
  }
});

t.test('prints the version of the package', async (t) => {
  const { version } = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8'));
  t.match(await rollcall(['--version']), { code: 0, stdout: `${version}\n` });
});

t.test('exits 2 on bad usage, and suggests what was meant', async (t) => {
  const cases: readonly (readonly [string[], RegExp])[] = [
    [[], /Usage: rollcall/],
    [['lisen'], /unknown command 'lisen'\n\(Did you mean listen\?\)/],
    [['endpoints', 'lst'], /too many arguments for 'list'.*\n\(Did you mean list\?\)/],
    [
      ['endpoints', 'crm'],
      /too many arguments.*\n\(Type rollcall endpoints list, or rollcall endpoints resume <endpoint\.\.\.>, or/,
    ],
    [['doctor', 'crm'], /too many arguments.*\n\(Type rollcall doctor\)/],
    [['dead-letters', 'rplay'], /\(Did you mean replay\?\)/],
    [['sync', '--onse'], /unknown option '--onse'\n\(Did you mean --once\?\)/],
    [['listen', '--port', '70000'], /whole number from 0 to 65535/],
    [['listen', '--fail', '999'], /503:0\.3/],
    [['listen', '--slow', '6'], /number with a unit/],
    [['sync', '--now', 'tomorrow'], /ISO 8601/],
    [['sync', '--once', '--now', '2026-02-30'], /ISO 8601/],
    [['attempts', '--since', '2026-01-31 5:00'], /ISO 8601/],
    [['sync', '--now', '1998-01-01'], /--now goes with --once/],
    [['sync', '--quiet'], /--quiet goes with --once/],
    [['migrate', '--from', 'sqlite:x.db'], /--from and --to go together/],
    [['migrate', '--without-event-log'], /--without-event-log goes with --from sqlite:PATH and --to only/],
    [['migrate', '--from', './copy', '--to', 'postgres://h/d', '--without-event-log'], /goes with --from sqlite:PATH/],
    [['migrate', '--from', 'postgres://h/d', '--to', 'sqlite:x.db'], /from sqlite:… to postgres:/],
    [['migrate', '--from', 'sqlite:none.db', '--to', 'postgres://h/d'], /There is no file/],
    [['backup'], /missing required argument 'folder'/],
    [['forget'], /missing required argument 'user-id'/],
    [['forget', ''], /"" must be a user id: not empty/],
    [['forget', 'u1', '  '], /" {2}" must be a user id: not empty, not only blanks/],
    [['dead-letters', 'list', '--reason', 'bored'], /Allowed choices are refused/],
    [['config', 'check', '-c', ''], /'-c, --config <file>' argument '' is invalid\. It must not be empty\./],
    [['config', 'reload', '--token', ''], /'--token <token>' argument '' is invalid\. It must not be empty\./],
    [['listen', '--host', ''], /'--host <address>' argument '' is invalid\. It must not be empty\./],
    [['listen', '--secret', 's', '--secret', ''], /It must not be empty\./],
    [['messages', '--user', ''], /It must not be empty\./],
    [['backup', ''], /for argument 'folder'\. It must not be empty\./],
    [['why', 'big_spenders', ''], /for argument 'user'\. It must not be empty\./],
  ];
  const results = await Promise.all(cases.map(([args]) => rollcall(args)));
  for (const [index, { code, stderr, stdout }] of results.entries()) {
    const [args, message] = cases[index] as (typeof cases)[number];
    t.equal(code, 2, args.join(' '));
    t.match(stderr, message);
    t.equal(stdout, '', 'nothing where results belong');
  }
});

t.test('exits 2 with each mistake of a configuration', async (t) => {
  const { config } = await workspace(t, 'http://127.0.0.1:9', 'serviceNam: x\nstore: mysql://h/d\n');
  for (const args of [['config', 'check'], ['sync', '--once'], ['start']]) {
    const { code, stderr } = await rollcall([...args, '-c', config]);
    t.equal(code, 2, args.join(' '));
    t.match(
      stderr,
      /bad_configuration: .* has 2 mistakes:\n.*serviceNam .*Did you mean serviceName\?\n.*store must be/,
    );
  }
  const { code, stdout } = await rollcall(['config', 'check', '--json', '-c', config]);
  t.equal(code, 2);
  t.match(jsonLines({ stdout }), [
    { path: 'serviceNam', line: 12 },
    { path: 'store', line: 13 },
  ]);
});

t.test('confirms a valid configuration', async (t) => {
  const { config } = await workspace(t, 'http://127.0.0.1:9');
  t.match(await rollcall(['config', 'check', '-c', config]), {
    code: 0,
    stdout: /is valid: 1 source, 1 destination/,
  });
  t.match(await rollcall(['config', 'check', '--json', '-c', config]), { code: 0, stdout: /"audiences":1/ });
  t.match(await rollcall(['config', 'check', '-c', `${config}.none`]), { code: 2, stderr: /-c FILE/ });
});

t.test('prints the JSON Schema', async (t) => {
  const { code, stdout } = await rollcall(['config', 'schema']);
  t.equal(code, 0);
  t.match(JSON.parse(stdout), { $schema: /json-schema/, properties: { destinations: { type: 'array' } } });
});

t.test('reads times without an offset as UTC, in any notation', (t) => {
  const written = ['2026-01-31T05:00', '2026-01-31 05:00', '2026-01-31T06:00+01:00', '2026-01-31T06:00+01'];
  for (const text of written) t.equal(instantOption(text), Date.UTC(2026, 0, 31, 5), text);
  t.equal(instantOption('2026-01-31'), Date.UTC(2026, 0, 31));
  t.end();
});
