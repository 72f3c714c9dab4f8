import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { startPostgres } from '../helpers/postgres.ts';
import { KEYS, type Orders, type Said } from '../live/helpers/crash-terms.ts';
import { seeded } from '../live/helpers/events.ts';
import { feed, forkLife, type Life } from '../live/helpers/fork-life.ts';
import { startReceiver } from '../live/helpers/receiver.ts';
import { takeovers } from '../live/helpers/takeover.ts';
import { startProxy } from './proxy.ts';

/** CLUSTER_SEED=N repeats what people do and whom the faults strike, not when exactly. */
const SEED = Number(process.env['CLUSTER_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const SECONDS = Number(process.env['CLUSTER_SECONDS'] ?? 60);
const PROCESSES = 4;
const EVERY = 3_000;
/** Longer than the lease of a leader, and than that of deliveries. */
const STOPPED_FOR = 35_000;
/** Between two batches. */
const BREATH = 25;
/** Other people come so often: by then those before are merged into few. */
const GENERATION = 10_000;

t.setTimeout(600_000);

type Fault = 'kill' | 'stop' | 'cut' | 'crash';

interface Member {
  readonly life: Life;
  readonly address: string;
  stopped: boolean;
}

/** Processes with the same live audiences on one Postgres, while things break. */
class LiveCluster {
  readonly faults: Record<Fault, number> = { kill: 0, stop: 0, cut: 0, crash: 0 };
  batches = 0;
  private readonly members = new Set<Member>();
  private readonly wakeUps: Promise<void>[] = [];
  private readonly random = seeded(SEED);
  private readonly t: Test;
  private readonly orders: Orders;

  constructor(t: Test, orders: Orders) {
    this.t = t;
    this.orders = orders;
  }

  async start(): Promise<void> {
    const life = forkLife(this.t, this.orders);
    const address = await Promise.race([life.listening, life.ended.then(() => null)]);
    // One that finds the database gone ends, as a supervisor expects, and is started again.
    if (address === null) return this.start();
    const member = { life, address, stopped: false };
    this.members.add(member);
    void life.ended.then(() => this.members.delete(member));
  }

  async load(until: () => boolean): Promise<void> {
    const began = Date.now();
    for (; !until(); await pause(BREATH)) {
      const member = this.any();
      if (!member) continue;
      this.batches += 1;
      const prefix = `g${Math.floor((Date.now() - began) / GENERATION)}-`;
      // Whoever is stopped meanwhile answers late.
      await Promise.race([feed(member.address, this.random, Date.now(), prefix), pause(2_000)]);
    }
  }

  async strike(fault: Fault, database: { cut(): void; crash(): Promise<void> }): Promise<void> {
    this.faults[fault] += 1;
    const member = this.any();
    if (fault === 'cut') database.cut();
    else if (fault === 'crash') await database.crash();
    else if (fault === 'kill' && member) {
      member.life.process.kill('SIGKILL');
      await member.life.ended;
      await this.start();
    } else if (fault === 'stop' && member) this.wakeUps.push(suspend(member));
  }

  /** The others end as they are; the last one says how live compares with the SQL. */
  async conclude(): Promise<Extract<Said, { readonly differences: unknown }>> {
    await Promise.all(this.wakeUps);
    const [last, ...others] = [...this.members];
    if (!last) throw new Error('Nobody is left.');
    for (const { life } of others) {
      life.process.kill('SIGKILL');
      await life.ended;
    }
    const answer = once(last.life.process, 'message');
    last.life.process.send('compare');
    const [said] = (await answer) as [Said];
    await last.life.ended;
    if (!('differences' in said)) throw new Error('It said something else.');
    return said;
  }

  private any(): Member | undefined {
    const running = [...this.members].filter(({ stopped }) => !stopped);
    return running[Math.floor(this.random() * running.length)];
  }
}

async function suspend(member: Member): Promise<void> {
  member.stopped = true;
  member.life.process.kill('SIGSTOP');
  await pause(STOPPED_FOR);
  member.life.process.kill('SIGCONT');
  member.stopped = false;
}

t.test('computes live audiences in four processes as the SQL does, whatever happens to them', async (t) => {
  const server = await startPostgres();
  const proxy = await startProxy(server.port);
  t.teardown(async () => {
    await proxy.close();
    await server.stop();
  });
  const direct = await server.database();
  await migratePostgres(direct);
  const url = new URL(direct);
  url.port = String(proxy.port);
  const receiver = await startReceiver(t);
  const orders = {
    folder: t.testdir({}),
    url: url.href,
    life: 0,
    edition: 0,
    ahead: 0,
    receiver: receiver.url,
    crash: null,
  };
  const cluster = new LiveCluster(t, orders);
  await Promise.all(Array.from({ length: PROCESSES }, () => cluster.start()));
  const began = performance.now();
  const isOver = () => performance.now() - began > SECONDS * 1_000;
  const load = cluster.load(isOver);
  const kinds: readonly Fault[] = ['kill', 'cut', 'stop', 'kill', 'crash', 'cut', 'kill', 'stop'];
  for (let n = 0; !isOver(); n += 1) {
    await pause(EVERY);
    await cluster.strike(kinds[n % kinds.length] ?? 'kill', { cut: proxy.cut, crash: () => server.crash() });
  }
  await load;
  const { differences, members } = await cluster.conclude();
  const report = { seed: SEED, batches: cluster.batches, ...receiver.counts, ...cluster.faults };
  t.comment(JSON.stringify(report));
  t.same(differences, [], 'live is what the SQL says');
  t.same(receiver.faults, [], 'nothing went backwards');
  for (const key of KEYS) t.strictSame(receiver.state(key), members[key], `receivers know ${key} as it is`);
  t.ok(receiver.counts.leavers > 0, 'members left');
});

/** The lease's time, and what it takes to notice, to begin and to deliver. */
const LEASE = 30_000;
const MARGIN = 5_000;

t.test('replaces a killed leader on Postgres before its lease would expire', async (t) => {
  const server = await startPostgres();
  t.teardown(() => server.stop());
  const times = await takeovers(t, await server.database(), 4);
  t.ok(
    times.every((ms) => ms < LEASE + MARGIN),
    `heard of what came after the kill within ${times.join(', ')} ms`,
  );
});
