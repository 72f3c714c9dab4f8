import { once } from 'node:events';
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { freePort } from '../helpers/free-port.ts';
import { filesOf, jsonLines, listen, orders, rollcall, start, workspace } from './helpers.ts';

const LINE = [
  ...'run key kind first members entered exited invalid duplicates held sent startedAt ms'.split(' '),
  ...'action state phase code reason changed reasons skipped before definitionHash asOf deliveries'.split(' '),
];

interface RunLine {
  readonly run: string;
  readonly sent: number;
}

t.test('sends changes that a receiver verifies, and nothing if nothing has changed', async (t) => {
  const listener = await listen(t, '--secret', 's3cret');
  const { folder, config } = await workspace(t, listener.url);
  const sync = async () => {
    const result = await rollcall(['sync', '--once', '--json', '-c', config]);
    t.equal(result.code, 0, result.stderr);
    return jsonLines<RunLine>(result);
  };

  const planned = await rollcall(['plan', '-c', config]);
  t.match(planned, { code: 0, stdout: /big_spenders \(audience, first sync\): 0 → 2 members, 2 enter, 0 leave/ });
  t.same(await filesOf(folder), [], 'a plan writes nothing');
  const [first] = await sync();
  t.same(Object.keys(first ?? {}), LINE);
  t.match(first, { key: 'big_spenders', kind: 'audience', first: true, members: 2, entered: 2, exited: 0, sent: 2 });
  t.match(await sync(), [{ first: false, entered: 0, exited: 0, sent: 0 }]);
  await orders(folder, { ada: 60, bob: 100 });
  t.match(await sync(), [{ first: false, members: 2, entered: 1, exited: 1, sent: 2 }]);

  t.match(await rollcall(['runs', '-c', config]), {
    stdout: /^run +audience .* took$[\s\S]*\d+ms$/m,
  });
  const history = await rollcall(['runs', '--json', '-c', config]);
  t.match(jsonLines(history)[0], { state: 'done', ms: Number, definitionHash: /^[0-9a-f]{16}$/, asOf: /Z$/ });
  t.match(
    jsonLines(history).map((run) => (run as { sent: number }).sent),
    [2, 0, 2],
  );
  t.match(await rollcall(['why', 'big_spenders', 'cyd', '-c', config]), {
    code: 0,
    stdout: /cyd is not in big_spenders/,
  });
  t.match(await rollcall(['forget', 'ada', '-c', config]), { code: 0, stdout: /FINISHED, 1 user\./ });
  t.match(await rollcall(['retire', 'big_spenders', '-c', config]), {
    code: 2,
    stderr: /2 members of big_spenders would be told false\. There is no terminal: add --yes/,
  });
  t.match(await rollcall(['retire', 'big_spenders', '--yes', '-c', config]), {
    code: 0,
    stdout: /1 delivered/,
    stderr: /big_spenders is still configured/,
  });

  const requests = await listener.stop();
  const told = requests.map(({ body }) => [body.type, body.userId, body.traits?.['big_spenders']]);
  t.same(told.slice(0, 2).toSorted(), [
    ['identify', 'ada', true],
    ['identify', 'cyd', true],
  ]);
  t.same(told.slice(2, 4).toSorted(), [
    ['identify', 'bob', true],
    ['identify', 'cyd', false],
  ]);
  t.same(told.slice(4), [
    ['delete', 'ada', undefined],
    ['identify', 'bob', false],
  ]);
  t.ok(requests.every(({ signature }) => signature === 'verified'));
});

t.test('holds a run with exit code 3 until it is approved or rejected', async (t) => {
  const listener = await listen(t);
  const { folder, config } = await workspace(t, listener.url);
  await rollcall(['sync', '--once', '-c', config]);
  await orders(folder, { bob: 100 });
  t.match(await rollcall(['plan', '-c', config]), { code: 0, stdout: /it would be held/ });
  t.match(await rollcall(['plan', '--exit-code', '-c', config]), { code: 3 });
  const held = await rollcall(['sync', '--once', '--json', '-c', config]);
  t.equal(held.code, 3);
  t.match(await rollcall(['plan', '--exit-code', '-c', config]), { code: 3 }, 'nor would a sync go past a held run');
  const [run] = jsonLines<RunLine>(held);
  t.match(run, { held: true, exited: 2, sent: 0 });
  t.match(held.stderr, `rollcall approve ${run?.run} -c ${config}`);
  t.match(await rollcall(['plan', '-c', config]), {
    stdout: new RegExp(`the run ${run?.run} is held, so that a sync sends nothing: 2 of 2 users would leave`),
  });
  t.match(await rollcall(['runs', '-c', config]), { stdout: / +2 \(1 once approved\) +1 +2 +0 +0 +held / });
  t.match(await rollcall(['runs', '--held', '-c', config]), { stdout: /more than maxExits \(50%\)/ });
  const shown = await rollcall(['runs', `${run?.run}`, '-c', config]);
  t.match(shown, { stdout: new RegExp(`^big_spenders is held: rollcall approve ${run?.run} `, 'm') });
  t.notMatch(shown.stdout, /Nothing to deliver/, 'there is something, once it is approved');
  t.match(await rollcall(['reject', `${run?.run}`, '-c', config]), {
    code: 0,
    stdout: /rejected[\s\S]*Nothing to deliver/,
  });
  t.match(await rollcall(['approve', `${run?.run}`, '-c', config]), {
    code: 2,
    stderr: /^unknown_run: .* is rejected, not held/,
  });
  const again = await rollcall(['sync', '--once', '--json', '-c', config]);
  const { run: waiting } = jsonLines<RunLine>(again)[0] ?? {};
  const approve = ['approve', `${waiting}`, '-c', config];
  t.match(await rollcall(approve), { code: 2, stderr: /1 would enter, 2 would leave\. There is no terminal.*--yes/ });
  t.match(await start(approve, { tty: true, answer: 'n\n' }).finished, {
    code: 1,
    stderr: /would leave\. Go on\? \[y\/N\] [\s\S]*The run stays held\./,
  });
  t.match(await rollcall([...approve, '--yes']), { code: 0, stdout: /3 deliveries: 3 delivered/ });
  t.equal((await listener.stop()).length, 5);
});

t.test('exits 1 with the reason of a failed sync, and goes on with the others', async (t) => {
  const listener = await listen(t);
  const { config } = await workspace(
    t,
    listener.url,
    '  - { name: Broken, source: personas, sql: "select user_id from nowhere" }\n' +
      '  - { name: Paused, source: personas, sql: "select 1 as user_id", paused: true }\n',
  );
  const result = await rollcall(['sync', '--once', '--json', '-c', config]);
  t.equal(result.code, 1);
  t.match(jsonLines(result), [
    { key: 'big_spenders', action: 'sync', state: 'done', sent: 2, deliveries: { total: 2, delivered: 2, waiting: 0 } },
    { run: /./, key: 'broken', state: 'failed', phase: 'stage', code: 'sql_failed', reason: /nowhere/, before: null },
  ]);
  t.match(result.stderr, /^sql_failed: broken: [^:]+: .*nowhere/m);
  t.notMatch(result.stderr, /"sync_failed"/, 'once');
  const planned = await rollcall(['plan', '-c', config]);
  t.match(planned, { code: 1, stdout: /^big_spenders /m, stderr: /^sql_failed: broken: /m });
  t.match(jsonLines(await rollcall(['plan', '--json', '-c', config])), [
    { key: 'big_spenders' },
    { error: { key: 'broken', code: 'sql_failed', message: /^broken: .*nowhere/s } },
  ]);
  const broken = await rollcall(['sync', 'broken', '--once', '-c', config]);
  t.match(broken, {
    code: 1,
    stdout: /^\S+ +broken +first sync +- +- +- +- +- +failed .*\n\S+: sql_failed: .*nowhere/m,
  });
  t.notMatch(broken.stdout, /deliver/, 'what failed has nothing to deliver, of course');
  t.match(await rollcall(['sync', 'paused', '--once', '-c', config]), { code: 0, stderr: /paused is paused/ });
  t.match(await rollcall(['sync', 'nobody', '--once', '-c', config]), { code: 2, stderr: /unknown_audience/ });
  t.equal((await listener.stop()).length, 2);
});

t.test('does nothing if interrupted while it starts', async (t) => {
  const { config } = await workspace(t, 'http://127.0.0.1:9');
  t.match(await start(['sync', '--once', '-c', config]).stop(), { code: 1, stderr: /^Interrupted\./ });
  t.match(await rollcall(['runs', '-c', config]), { code: 0, stderr: /There are no runs yet/ });
  t.match(await start(['start', '-c', config]).stop(), { code: 0 });
});

t.test('sends the alert of a failed run before it ends', async (t) => {
  const [listener, people] = [await listen(t), await listen(t, '--secret', 'n0tice')];
  const more = `  - { name: Broken, source: personas, sql: "select nonsense" }
alerts: { notify: { url: "${people.url}/notices", secret: n0tice }, rules: { runFailed: { after: 0s } } }
`;
  const { config } = await workspace(t, listener.url, more);
  t.match(await rollcall(['sync', '--once', '-c', config]), { code: 1 });
  const properties = { kind: 'runFailed', alerts: [{ audience: 'broken', message: /nonsense/ }] };
  t.match(await people.stop(), [{ signature: 'verified', body: { type: 'track', event: 'Alert Opened', properties } }]);
  t.equal((await listener.stop()).length, 2);
});

t.test('mentions an audience that is no longer configured until it is retired', async (t) => {
  const listener = await listen(t);
  const gone = '  - { name: Gone, source: personas, sql: "select 1 as user_id" }\n';
  const { config } = await workspace(t, listener.url, gone);
  await rollcall(['sync', '--once', '-c', config]);
  await writeFile(config, (await readFile(config, 'utf8')).replace(gone, ''));
  const words = /gone is no longer configured: rollcall retire gone/;
  t.match(await rollcall(['sync', '--once', '-c', config]), { code: 0, stderr: words });
  t.match(await rollcall(['plan', '-c', config]), { code: 0, stderr: words });
  t.match(await rollcall(['retire', 'gone', '-y', '-c', config]), { code: 0, stderr: '' });
  t.notMatch((await rollcall(['plan', '-c', config])).stderr, words);
  t.equal((await listener.stop()).length, 4);
});

t.test('lists, replays and drops dead letters of refused messages', async (t) => {
  const refusing = await listen(t, '--fail', '400');
  const { config } = await workspace(t, refusing.url);
  const sync = await rollcall(['sync', '--once', '-c', config]);
  t.match(sync, {
    code: 4,
    stdout: /2 deliveries: 0 delivered, 2 dead/,
    stderr: /2 deliveries are not delivered: rollcall dead-letters list/,
  });
  const letters = jsonLines<{ id: string }>(await rollcall(['dead-letters', 'list', '--json', '-c', config]));
  t.same(Object.keys(letters[0] ?? {}), [
    ...['id', 'destination', 'source', 'type', 'userId', 'messageId', 'reason', 'status', 'attempts'],
    ...['firstAt', 'lastAt'],
  ]);
  t.match(letters, [
    { destination: 'crm', source: 'personas', type: 'identify', reason: 'refused', status: 400, attempts: 1 },
    { reason: 'refused' },
  ]);
  t.match(await rollcall(['dead-letters', 'replay', '-c', config]), { code: 2, stderr: /--all/ });
  t.match(await rollcall(['dead-letters', 'drop', `${letters[0]?.id}`, '-c', config]), {
    stdout: /1 dead letter dropped/,
  });
  t.match(await rollcall(['dead-letters', 'replay', '--all', '-c', config]), { stdout: /1 dead letter replayed/ });
  t.match(await rollcall(['dead-letters', '-c', config]), { stderr: /no dead letters/ });
  t.match(await rollcall(['endpoints', '--json', '-c', config]), { stdout: /"pending":1,"dead":0/ });
  t.match(await rollcall(['attempts', '--json', '--outcome', 'refused', '-c', config]), { stdout: /"status":400/ });
  await refusing.stop();
});

t.test('neither waits for an endpoint that is down nor fails', async (t) => {
  const { config } = await workspace(t, 'http://127.0.0.1:9');
  t.match(await rollcall(['sync', '--once', '-c', config]), {
    code: 4,
    stdout: /2 deliveries: 0 delivered, 2 waiting/,
    stderr: /2 deliveries are not delivered/,
  });
});

t.test('SQL finds files next to the configuration, whatever the name of the folder', async (t) => {
  const { folder, config } = await workspace(t, 'http://127.0.0.1:9');
  const glob = (await readFile(config, 'utf8')).replace('orders.csv', 'ord*.csv');
  for (const name of ['a,b', "it's [1] {x,y}?*", ',']) {
    const odd = join(folder, name);
    await mkdir(odd);
    await copyFile(join(folder, 'orders.csv'), join(odd, 'orders.csv'));
    await writeFile(join(odd, 'rollcall.yaml'), glob);
    const planned = await rollcall(['plan', '-c', join(odd, 'rollcall.yaml')]);
    t.match(planned, { code: 0, stdout: /0 → 2 members/ }, name);
  }
});

t.test('an interrupted plan exits 1 and skips the other audiences', async (t) => {
  const more = `  - { name: Slow, engine: slow, source: personas, sql: "select 1 as user_id" }
engines:
  lake: { type: duckdb, path: ":memory:" }
  slow: { type: module, module: ./slow.mjs }
`;
  const { folder, config } = await workspace(t, 'http://127.0.0.1:9', more);
  const computing = new BroadcastChannel('computing');
  t.teardown(() => computing.close());
  await writeFile(`${folder}/slow.mjs`, SLOW_ENGINE);
  const plan = start(['plan', 'slow', 'big_spenders', '-c', config]);
  await once(computing, 'message');
  const { code, stdout, stderr } = await plan.stop();
  t.same([code, stdout], [1, '']);
  t.match(stderr, /^Interrupted\. [^\n]+\n$/);
});

/** Says that it computes, which ends once it is interrupted. */
const SLOW_ENGINE = `const verbs = {
  then: undefined,
  ownership: undefined,
  snapshot: async () => ({ version: 0, members: 0 }),
  preview: ({ signal }) => {
    const channel = new BroadcastChannel('computing');
    channel.postMessage('');
    channel.close();
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  },
};
export const openEngine = () => new Proxy(verbs, { get: (_, verb) => (verb in verbs ? verbs[verb] : async () => {}) });
`;

t.test('an interrupted sync exits 1, and a service sends the rest', async (t) => {
  const port = `${await freePort()}`;
  const slow = await listen(t, '--port', port, '--slow', '1h');
  const { config } = await workspace(t, slow.url);
  const running = start(['sync', '--once', '-v', '-c', config]);
  await running.stderr.match(/sync_run/);
  const stopped = running.stop();
  await slow.stop();
  const interrupted = await stopped;
  t.match(interrupted, { code: 1, stdout: /big_spenders +first sync/ });
  const said = interrupted.stderr.split('\n').filter((line) => line !== '' && !line.startsWith('{'));
  t.match(said, [/^Interrupted\. Nothing that was accepted is lost/], 'one line, and nothing of what it broke off');
  const again = start(['listen', '--port', port, '--json']);
  await again.stderr.match(/Listening/);
  const service = start(['serve', '-c', config]);
  await again.stdout.match(/(.*"type":"identify".*\n){2}/);
  t.match(await service.stop(), { code: 0 });
  await again.stop();
});
