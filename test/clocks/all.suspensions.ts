import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import t from 'tap';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { Ledger } from '../cluster/ledger.ts';
import type { MemberOptions, Task } from '../cluster/member.ts';
import { startPostgres } from '../helpers/postgres.ts';
import { FakeClocks, skipWithoutFaketime } from './faketime.ts';

/** How much faster time runs, and longer than a lease by that time, in milliseconds. */
const SPEED = 10;
const SUSPENDED_FOR = 3_000;
const ROUNDS = 4;

t.test(
  'posts nothing that others took over while this process and its clocks were suspended',
  { skip: skipWithoutFaketime },
  async (t) => {
    const server = await startPostgres();
    t.teardown(() => server.stop());
    const database = await server.database();
    await migratePostgres(database);
    const ledger = new Ledger();
    const options: MemberOptions = { database, receiver: await ledger.listen(), speed: SPEED };
    t.teardown(() => ledger.close());
    const folder = t.testdir({});
    const members: { process: ChildProcess; clocks: FakeClocks; slept: number }[] = [];
    for (const name of ['a', 'b']) {
      const clocks = new FakeClocks(join(folder, name));
      const process = await start(options, clocks);
      t.teardown(() => process.kill('SIGKILL'));
      members.push({ process, clocks, slept: 0 });
    }
    const acknowledged = new Set<string>();
    let sent = 0;
    const accept = async (process: ChildProcess) => {
      const ids = Array.from({ length: 10 }, () => `m${sent++}`);
      if (await ask(process, { accept: ids })) for (const id of ids) acknowledged.add(id);
    };
    for (let round = 0; round < ROUNDS; round += 1) {
      const [sleeper, other] = round % 2 === 0 ? members : members.toReversed();
      if (!sleeper || !other) throw new Error('two members');
      for (let each = 0; each < 10; each += 1) await Promise.all([accept(sleeper.process), accept(other.process)]);
      sleeper.process.kill('SIGSTOP');
      const end = performance.now() + SUSPENDED_FOR;
      while (performance.now() < end) await Promise.all([accept(other.process), pause(100)]);
      sleeper.slept += SUSPENDED_FOR / 1_000;
      sleeper.clocks.shift(-sleeper.slept);
      sleeper.process.kill('SIGCONT');
      for (let each = 0; each < 10; each += 1) await accept(other.process);
    }
    const missing = () => [...acknowledged].filter((id) => !ledger.taken.has(id)).length;
    await Promise.race([ledger.until(() => missing() === 0), pause(120_000, undefined, { ref: false })]);
    t.comment(
      `${ROUNDS} suspensions, ${acknowledged.size} accepted, ${ledger.repeats} repeats, ${ledger.overlaps} overlaps`,
    );
    t.equal(missing(), 0, 'nothing is lost');
    t.equal(ledger.overlaps, 0, 'nothing is posted by two at once');
  },
);

async function start(options: MemberOptions, clocks: FakeClocks): Promise<ChildProcess> {
  const child = fork(new URL('../cluster/member.ts', import.meta.url), [JSON.stringify(options)], {
    execArgv: [],
    env: { ...process.env, NODE_OPTIONS: '', ...clocks.env(true) },
  });
  await once(child, 'message');
  return child;
}

function ask(child: ChildProcess, task: Task): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const hear = (answer: { task: Task; done: boolean }) => {
    if (JSON.stringify(answer.task) !== JSON.stringify(task)) return;
    child.off('message', hear);
    resolve(answer.done);
  };
  child.on('message', hear);
  child.send(task);
  return promise;
}
