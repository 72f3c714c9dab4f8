import { stripVTControlCharacters } from 'node:util';
import type { Command } from 'commander';
import t from 'tap';
import { buildProgram } from '../../src/cli/program.ts';
import { jsonLines, listen, rollcall, start, workspace } from './helpers.ts';

/** Commands that do something, by what is typed. */
function commandsOf(command: Command, prefix: readonly string[] = []): [string, Command][] {
  return command.commands.flatMap((each) => {
    const path = [...prefix, each.name()];
    return each.commands.length > 0 ? commandsOf(each, path) : [[path.join(' '), each] as [string, Command]];
  });
}

t.test('every command accepts --json', async (t) => {
  const { stdin, stdout, stderr } = process;
  const program = buildProgram({ stdin, stdout, stderr, signal: new AbortController().signal }, () => {});
  const commands = commandsOf(program);
  t.ok(commands.length > 25);
  const without = commands.filter(([, command]) => !command.options.some(({ long }) => long === '--json'));
  t.same(
    without.map(([name]) => name),
    [],
  );
});

t.test('prints any failure as an object on stdout with --json', async (t) => {
  const { config } = await workspace(t, 'http://127.0.0.1:9');
  const cases: readonly (readonly [string[], number, object])[] = [
    [['sync', '--once', 'big_spender'], 2, { code: 'unknown_audience', message: /Did you mean big_spenders\?$/ }],
    [['plan', 'nobody'], 2, { code: 'unknown_audience', message: /There is: big_spenders\.$/ }],
    [['why', 'big-spenders', 'u1'], 2, { code: 'unknown_audience', message: /Did you mean big_spenders\?$/ }],
    [['retire', 'bigspenders'], 2, { code: 'unknown_audience', message: /Did you mean big_spenders\?$/ }],
    [['audiences', 'big-spenders'], 2, { code: 'unknown_audience', message: /Did you mean big_spenders\?$/ }],
    [['audiences', 'nope'], 2, { code: 'unknown_audience', message: /There is: big_spenders\.$/ }],
    [['audiences', 'puase', 'x'], 2, { code: 'unknown_audience', message: /Did you mean pause\?$/ }],
    [['endpoints', 'pause', 'cmr'], 2, { code: 'bad_usage', message: /Did you mean crm\?$/ }],
    [['endpoints', 'resume', 'crn'], 2, { code: 'bad_usage', message: /Did you mean crm\?$/ }],
    [['destinations', 'drop', 'crmm'], 2, { code: 'bad_usage', message: /Did you mean crm\?$/ }],
    [['forget', 'u1', '--source', 'persona'], 2, { code: 'bad_usage', message: /Did you mean personas\?$/ }],
    [['test', 'crn'], 2, { code: 'bad_usage', message: /Did you mean crm\?$/ }],
    [['members', 'bigspenders'], 2, { code: 'unknown_audience', message: /Did you mean big_spenders\?$/ }],
    [['resync', 'bigspenders'], 2, { code: 'unknown_audience', message: /Did you mean big_spenders\?$/ }],
    [['approve', 'nothing'], 2, { code: 'unknown_run' }],
    [['runs', 'big_spnders'], 2, { code: 'unknown_run', message: /Did you mean big_spenders\?$/ }],
    [['sync', '--onse'], 2, { code: 'bad_usage', message: /unknown option '--onse'/ }],
    [['dead-letters', 'replay'], 2, { code: 'bad_usage', message: /--all/ }],
    [['config', 'reload'], 2, { code: 'bad_usage', message: /SIGHUP/ }],
  ];
  for (const [args, code, error] of cases) {
    const result = await rollcall([...args, '--json', '-c', config]);
    t.equal(result.code, code, args.join(' '));
    t.match(jsonLines(result), [{ error }], args.join(' '));
    t.not(result.stderr, '', 'and a line for people on stderr');
  }
  const missing = await rollcall(['runs', '--json', '-c', `${config}.none`]);
  t.match(jsonLines(missing), [{ error: { code: 'bad_configuration' } }]);
});

t.test('accepts an audience that has not run yet, and rejects an unknown one', async (t) => {
  const { config } = await workspace(t, 'http://127.0.0.1:9');
  await rollcall(['migrate', '-c', config]);
  t.match(await rollcall(['runs', 'big_spenders', '-c', config]), { code: 0, stderr: /no runs of big_spenders yet/ });
  t.match(await rollcall(['runs', 'nope', '-c', config]), {
    code: 2,
    stderr: 'unknown_run: There is no run, audience or trait nope. There is: big_spenders.\n',
  });
});

t.test('shows a run with the outcome of its deliveries', async (t) => {
  const listener = await listen(t);
  const { config } = await workspace(t, listener.url);
  const [line] = jsonLines<{ run: string }>(await rollcall(['sync', '--once', '--json', '-c', config]));
  const run = `${line?.run}`;
  t.match(await rollcall(['runs', run, '-c', config]), { code: 0, stdout: /2 deliveries: 2 delivered\.$/m });
  t.match(jsonLines(await rollcall(['runs', run, '--json', '-c', config])), [
    { run, state: 'done', deliveries: { total: 2, delivered: 2, superseded: 0, dead: 0, waiting: 0 } },
  ]);
  await listener.stop();
});

t.test('shortens the sample of a plan, except with --json', async (t) => {
  const { config } = await workspace(t, 'http://127.0.0.1:9');
  const { stdout } = await rollcall(['plan', '-c', config]);
  t.match(stdout, /^ {2}such as ada: big_spenders = true$/m);
  t.ok(stdout.split('\n').every((line) => line.length < 130));
  const [plan] = jsonLines<{ sample: string[] }>(await rollcall(['plan', '--json', '-c', config]));
  t.match(JSON.parse(plan?.sample[0] ?? ''), { version: 1, type: 'identify', userId: 'ada' });
});

t.test('colours states on a terminal, and fits endpoints into its width', async (t) => {
  const { config } = await workspace(t, 'http://127.0.0.1:9');
  await rollcall(['migrate', '-c', config]);
  const running = start(['endpoints', '-c', config], { tty: true, columns: 60 });
  const { stdout } = await running.finished;
  t.match(stdout, '\u001b[32mopen\u001b[39m');
  const plain = stripVTControlCharacters(stdout);
  t.ok(
    plain.split('\n').every((line) => line.length <= 60),
    plain,
  );
});
