import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import pg from 'pg';
import type { Test } from 'tap';
import type { Failpoint } from '../../../src/kernel/failpoint.ts';
import { type Crash, KEYS, type Orders, type Said } from './crash-terms.ts';
import { seeded } from './events.ts';
import { feed, forkLife } from './fork-life.ts';
import { startReceiver } from './receiver.ts';

/** Time that passes from one life to the next: longer than the leases that the dead one held. */
const PAUSE = 35_000;
/** Between two batches, so that steps come between them. */
const BREATH = 20;
/** Lives after which other people come: by then those before are merged into few. */
const GENERATION = 3;

/** By the database's clock. An owner that ended long ago is forgotten, so theirs ends just now. */
const NOW = '(extract(epoch FROM statement_timestamp()) * 1000)::bigint';

type Receiver = Awaited<ReturnType<typeof startReceiver>>;

/** Live audiences that live through many crashes while events come in. */
export class LiveCrashes {
  private readonly t: Test;
  private readonly folder: string;
  private readonly url: string;
  private readonly isOnPostgres: boolean;
  private readonly receiver: Receiver;
  private readonly random: () => number;
  private lives = 0;
  private edition = 0;

  private constructor(t: Test, receiver: Receiver, database: string | null, seed: number) {
    this.t = t;
    this.receiver = receiver;
    this.folder = t.testdir({});
    this.isOnPostgres = database !== null;
    this.url = database ?? `sqlite:${join(this.folder, 'rollcall.db')}`;
    this.random = seeded(seed);
  }

  /** @param database - the URL of an empty Postgres store; on SQLite unless given */
  static async start(t: Test, database: string | null, seed: number): Promise<LiveCrashes> {
    return new LiveCrashes(t, await startReceiver(t), database, seed);
  }

  /** One life under load, which ends at a failpoint. */
  async dieAt(failpoint: Failpoint, passes: number, from: Crash['from'] = 'told'): Promise<void> {
    const child = await this.live({ failpoint, passes, from });
    const [, signal] = await child.ended;
    this.t.equal(signal, 'SIGKILL', `killed at ${failpoint} ${passes}`);
  }

  /**
   * One life that has to build anew what is kept, and ends so many steps into that. If it has fewer, all goes live: resolves
   * to their number; null once it is killed.
   */
  async dieInBuild(passes: number): Promise<number | null> {
    this.edition += 1;
    const child = await this.live({ failpoint: 'live_build', passes, from: 'start' });
    const told = child.listening
      .then(() => once(child.process, 'message'))
      .then(([said]) => (said as { told: number }).told);
    const steps = await Promise.race([told, child.ended.then(() => null)]);
    child.process.kill('SIGKILL');
    await child.ended;
    return steps;
  }

  /** One life under load, which is killed so long after it listens. */
  async dieAfter(ms: number): Promise<void> {
    const child = await this.live(null);
    await child.listening;
    await setTimeout(ms);
    child.process.kill('SIGKILL');
    this.t.equal((await child.ended)[1], 'SIGKILL', `killed after ${ms} ms`);
  }

  /** One life that takes some events, and is compared with the SQL and with what the receiver knows. */
  async audit(): Promise<void> {
    const { t, receiver } = this;
    const child = await this.live(null);
    await child.listening;
    await setTimeout(500);
    await child.quiet();
    const answer = once(child.process, 'message');
    child.process.send('compare');
    const [said] = (await answer) as [Said];
    await child.ended;
    if (!('differences' in said)) throw new Error('It said something else.');
    t.same(said.differences, [], `live is what the SQL says, after ${this.lives} lives`);
    t.same(receiver.faults, [], `nothing of ${receiver.counts.changes} changes went backwards`);
    for (const key of KEYS) {
      t.strictSame(receiver.state(key), said.members[key], `receivers know ${key} as it is`);
    }
  }

  /** Messages that the receiver got: all changes, and those of users who left. */
  get heard(): Receiver['counts'] {
    return this.receiver.counts;
  }

  private async live(crash: Crash | null) {
    if (this.isOnPostgres && this.lives > 0) await this.endLeases();
    const { folder, url, lives: life, edition, receiver } = this;
    const orders: Orders = { folder, url, life, edition, ahead: life * PAUSE, receiver: receiver.url, crash };
    const prefix = `g${Math.floor(life / GENERATION)}-`;
    this.lives += 1;
    const { process: child, ended, listening } = forkLife(this.t, orders);
    let isOver = false;
    void ended.then(() => {
      isOver = true;
    });
    const feeding = Promise.race([listening, ended.then(() => null)]).then(async (address) => {
      while (!isOver && address !== null) {
        await feed(address, this.random, Date.now() + orders.ahead, prefix);
        await setTimeout(BREATH);
      }
    });
    const quiet = () => {
      isOver = true;
      return feeding;
    };
    return { process: child, ended, listening, quiet };
  }

  /** Those of a process that is dead end by the database's clock: nobody waits for that here. */
  private async endLeases(): Promise<void> {
    const client = new pg.Client(this.url);
    await client.connect();
    await client.query('UPDATE rollcall.lease SET lease_until = 0');
    await client.query(`UPDATE rollcall.owner SET lease_until = ${NOW}`);
    await client.end();
  }
}
