import { utimes } from 'node:fs/promises';
import { Writable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { sparkline } from '../../src/cli/commands/audiences.ts';
import { writeLines } from '../../src/cli/output/write-lines.ts';
import { jsonLines, listen, orders, rollcall, workspace } from './helpers.ts';

const TRAIT = `traits:
  - name: Lifetime Value
    source: personas
    sql: select customer as user_id, sum(amount) as value, max('a,"b"') as note from read_csv('orders.csv') group by 1
`;

t.test('shows an audience that was due and never ran as overdue', async (t) => {
  const traits = `traits:
  - { name: Spent, source: personas, schedule: "* * * * *", sql: "select 'ada' as user_id, 1 as value" }
`;
  const { config } = await workspace(t, 'http://127.0.0.1:1', traits);
  await rollcall(['audiences', 'pause', 'big_spenders', '-c', config]);
  const fresh = await rollcall(['audiences', '-c', config]);
  t.match(fresh, { code: 0, stdout: /^spent +trait +new +- +- +in \d+/m, stderr: '' });
  const hourAgo = Date.now() / 1000 - 3600;
  await utimes(config, hourAgo, hourAgo);
  const due = await rollcall(['audiences', '-c', config]);
  t.match(due, { code: 0, stdout: /^spent +trait +new +- +- +overdue$/m });
  t.match(due.stderr, /^spent is overdue: it was due at \S+Z, and nothing began\. Is the service running\?$/m);
  t.match(await rollcall(['doctor', '-c', config]), { stdout: /spent: is overdue: it has not run yet/ });
});

t.test('shows audiences, members, changes and stories to people and to scripts', async (t) => {
  const listener = await listen(t);
  const { folder, config } = await workspace(t, listener.url, TRAIT);
  const run = (...args: readonly string[]) => rollcall([...args, '-c', config]);
  const json = async <T>(...args: readonly string[]) => jsonLines<T>(await run(...args, '--json'));
  await run('sync', '--once');
  await orders(folder, { ada: 60, bob: 100 });
  await run('sync', '--once');
  const [second] = await json<{ run: string }>('runs', 'big_spenders', '-n', '1');

  t.match(await run('audiences'), { code: 0, stdout: /^big_spenders +audience +ok +2 +▄▄ +.* ago +by hand$/m });
  t.match(await json('audiences'), [
    { key: 'big_spenders', members: 2, trend: [2, 2], lastRun: { run: second?.run, state: 'done' }, todo: null },
    { key: 'lifetime_value', kind: 'trait' },
  ]);

  t.match(await json('audiences', 'lifetime_value'), [{ key: 'lifetime_value' }]);
  t.equal((await json('audiences', 'lifetime_value')).length, 1, 'only the one that was named');

  t.match(await run('audiences', 'pause', 'big_spenders', 'lifetime_value'), {
    code: 0,
    stdout: /^big_spenders is paused\.$/m,
  });
  t.match(await run('audiences'), { stdout: /^big_spenders +audience +paused /m });
  t.match(await run('sync', '--once'), {
    code: 0,
    stderr: /^big_spenders is paused since \S+Z by cli:\S+: rollcall audiences resume big_spenders$/m,
  });
  t.match(await run('sync', 'lifetime_value', '--once'), { stderr: /^lifetime_value is paused since / });
  t.match(await run('plan', 'big_spenders'), {
    stdout: /^ {2}paused since \S+Z by cli:\S+: no sync sends this before it is resumed$/m,
  });
  t.match(await json('plan', 'big_spenders'), [{ paused: { since: /Z$/, by: /^cli:/ } }]);
  t.match(await run('audiences', 'pause', 'big_spender'), { code: 2, stderr: /Did you mean big_spenders\?/ });
  t.match(await run('audiences', 'resume', 'big_spenders', 'lifetime_value'), { code: 0, stdout: /no longer paused/ });
  t.match(await json('audit', '--action', 'audience.pause'), [{ target: 'lifetime_value', outcome: 'done' }, {}]);
  t.match(await run('audit', '--action', 'audience.puse'), {
    stderr: /^Nobody did that\. Did you mean audience\.pause\?$/m,
  });
  t.match(await json('runs', 'big_spenders', '-n', '1'), [{ run: second?.run }], 'nothing ran meanwhile');

  t.same((await run('members', 'big_spenders')).stdout.split('\n').toSorted(), ['', 'ada', 'bob']);
  t.same((await json<{ userId: string }>('members', 'big_spenders')).map(({ userId }) => userId).toSorted(), [
    'ada',
    'bob',
  ]);
  t.match(
    (await json('members', 'lifetime_value')).find((each) => (each as { userId: string }).userId === 'bob'),
    {
      traits: { value: 100, note: 'a,"b"' },
    },
  );
  const { stdout: csv } = await run('members', 'lifetime_value', '--csv');
  t.same(csv.split('\n').toSorted(), ['', 'ada,60,"a,""b"""', 'bob,100,"a,""b"""', 'user_id,value,note']);
  t.equal((await run('members', 'big_spenders', '--csv')).stdout.split('\n')[0], 'user_id');
  t.match(await run('members', 'big_spender'), { code: 2, stdout: '', stderr: /Did you mean big_spenders\?/ });
  t.match(await run('members', 'big_spenders', '--csv', '--json'), { code: 2 });
  t.equal((await run('members', 'big_spenders', '-n', '1')).stdout, 'ada\n');
  t.equal((await run('members', 'big_spenders', '--after', 'ada')).stdout, 'bob\n');

  const changed = await run('runs', `${second?.run}`, '--changes');
  t.same(changed.stdout.split('\n').toSorted(), ['', 'entered  bob', 'exited   cyd']);
  t.match(
    (await json<{ change: string }>('runs', `${second?.run}`, '--changes')).find(({ change }) => change === 'exited'),
    { run: second?.run, key: 'big_spenders', userId: 'cyd' },
  );
  t.equal((await run('runs', `${second?.run}`, '--changes', '--after', 'bob')).stdout, 'exited   cyd\n');
  t.equal((await run('runs', `${second?.run}`, '--changes', '-n', '1')).stdout, 'entered  bob\n');
  t.match(await run('runs', `${second?.run}`, '--after', 'bob'), {
    code: 2,
    stderr: /--after goes with --changes only/,
  });
  t.match(await run('runs', `${second?.run}`, '--held'), {
    code: 2,
    stderr: /--held does not go with the id of a run/,
  });
  t.match(await run('runs', '--changes'), { code: 2, stderr: /goes with the id of a run/ });
  t.match(await run('runs', 'big_spenders', '--changes'), { code: 2, stderr: /There is no run big_spenders/ });

  const story = await run('why', 'big_spenders', 'cyd');
  t.match(story.stdout, new RegExp(`^cyd is not in big_spenders, since the run ${second?.run} of .*Z\\.$`, 'm'));
  t.match(
    story.stdout,
    /^- .*Z entered \(reason first_sync\), by the first sync \S+, definition [0-9a-f]{16}\n {4}crm: success 200 at .*, delivery /m,
  );
  t.match(story.stdout, new RegExp(`^- .*Z left, by the sync ${second?.run}, `, 'm'));
  const [told] = await json<{ changes: object[] }>('why', 'big_spenders', 'cyd');
  t.match(told, {
    member: false,
    changes: [
      {
        change: 'entered',
        told: [{ destination: 'crm', reached: true, attempt: { outcome: 'success', status: 200 } }],
      },
      { change: 'left', run: second?.run, action: 'sync', definitionHash: /^[0-9a-f]{16}$/ },
    ],
  });
  t.match(await run('why', 'big_spenders', 'cyd', '--at', '2020-01-01'), {
    stdout: 'At 2020-01-01T00:00:00.000Z, cyd was not in big_spenders.\n',
  });
  t.match(await run('person', 'cyd'), {
    code: 0,
    stdout:
      /^cyd: in 0 of 2 audiences and traits\.\nnot in big_spenders\n {2}- .* left, by the sync[^\n]*\n {6}crm: success/,
  });
  t.match(await run('person', 'bob'), {
    stdout:
      /^bob: in 2 of 2 audiences and traits\.\nbig_spenders\n {2}- .* entered, by .*\n[^\n]*\nlifetime_value \{.*\}\n {2}- /,
  });
  const [person] = await json('person', 'cyd');
  t.match(person, {
    user: 'cyd',
    memberships: [
      { key: 'big_spenders', member: false, change: { change: 'left', told: [{ destination: 'crm', reached: true }] } },
      { key: 'lifetime_value', kind: 'trait', member: false, value: null },
    ],
  });
  t.match(await run('person', 'nobody'), {
    stdout: 'nobody: in 0 of 2 audiences and traits.\nNot in, as far as is known: big_spenders, lifetime_value.\n',
  });
  t.match(await run('retire', 'big_spenders', '--yes'), { code: 0 });
  t.match(await run('why', 'big_spenders', 'ada'), {
    code: 0,
    stdout: /ada is not in big_spenders.*\n.*entered[\s\S]*\n.* left \(reason retired\), by the retire/,
  });
  await listener.stop();
});

t.test('shows the rest of a person if an engine does not answer', async (t) => {
  const { config } = await workspace(
    t,
    'http://127.0.0.1:1',
    `  - { name: Far, source: personas, engine: far, paused: true, sql: select 'ada' as user_id }
engines:
  duckdb: { type: duckdb }
  far: { type: postgres, url: "postgres://nobody:hidden@127.0.0.1:1/nothing" }
`,
  );
  await rollcall(['sync', 'big_spenders', '--once', '-c', config]);
  const shown = await rollcall(['person', 'ada', '-c', config]);
  t.match(shown, {
    code: 1,
    stdout:
      /^ada: in 1 of 1 audiences and traits\.\nbig_spenders\n[\s\S]*^The engine far does not answer \(engine_unreachable\): /m,
  });
  t.notMatch(shown.stdout + shown.stderr, /hidden/);
});

t.test('does not resume an audience that the configuration pauses', async (t) => {
  const asleep = '  - { name: Asleep, source: personas, sql: select 1 as user_id, paused: true }\n';
  const { config } = await workspace(t, 'http://127.0.0.1:9', asleep);
  const run = (...args: readonly string[]) => rollcall([...args, '-c', config]);
  t.match(await run('audiences', 'resume', 'big_spenders', 'asleep'), {
    code: 0,
    stdout: /^big_spenders is no longer paused\.\nasleep stays paused: the configuration has paused: true\.$/m,
    stderr: '',
  });
  t.same(jsonLines(await run('audiences', 'resume', 'big_spenders', 'asleep', '--json')), [
    { key: 'big_spenders', paused: false },
    { key: 'asleep', paused: true },
  ]);
  t.match(await run('sync', 'asleep', '--once'), { stderr: /^asleep is paused in the configuration\.$/m });
  t.match(await run('plan', 'asleep'), {
    stdout:
      /^asleep .* 0 → 1 member[\s\S]*\n {2}paused in the configuration: no sync sends this before it is resumed$/m,
  });
});

t.test('scales a trend from the smallest to the largest size', async (t) => {
  t.equal(sparkline([]), '');
  t.equal(sparkline([7]), '▄');
  t.equal(sparkline([0, 50, 100]), '▁▅█');
});

t.test('waits for the reader of a long list, with one batch in memory', async (t) => {
  const read: string[] = [];
  let release = () => {};
  const stdout = new Writable({
    highWaterMark: 1,
    write(chunk, _encoding, done) {
      read.push(String(chunk));
      release = done;
    },
  });
  const terminal = { stdout, stderr: stdout, signal: new AbortController().signal };
  let written = 0;
  const writing = (async () => {
    for (const line of ['a', 'b', 'c']) {
      await writeLines(terminal, [line]);
      written += 1;
    }
  })();
  for (const count of [0, 1, 2]) {
    await setImmediate();
    t.equal(written, count);
    release();
  }
  await writing;
  t.same(read, ['a\n', 'b\n', 'c\n']);
});
