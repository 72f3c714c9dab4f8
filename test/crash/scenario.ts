import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { Test } from 'tap';
import { systemClock } from '../../src/kernel/clock.ts';
import type { Failpoint } from '../../src/kernel/failpoint.ts';
import { openStore } from '../../src/store/open.ts';
import { program } from '../helpers/programs.ts';
import { type Entry, Ledger, LIFE_HEADER, SECRET } from './ledger.ts';

/** How a round ends: at a failpoint, after so many deliveries have arrived, or so long after the process was started. */
export type Kill =
  | { readonly failpoint: Exclude<Failpoint, 'migration'>; readonly passes: number }
  | { readonly afterDeliveries: number }
  | { readonly afterMs: number };

export interface ScenarioOptions {
  /** Makes the URL of an empty store; a SQLite file of the scenario's own unless given. */
  readonly newStore?: () => Promise<string>;
  /** Whether the receiver takes batches. */
  readonly isBatched?: boolean;
  /** The database in which the audience is computed; a DuckDB file of the scenario's own unless given. */
  readonly engine?: string;
}

const SYNC_POINTS = new Set<Failpoint>(['sync_stage', 'sync_stream', 'sync_commit']);
const BATCH = 20;
/** Messages are sent until the process dies, but no more than this. */
const BATCHES_LIMIT = 400;
const DAY = 86_400_000;
const FIRST_DAY = Date.UTC(2026, 0, 1);
const USERS = 300;
/** How long a process may take to come by its failpoint, in milliseconds. */
const PATIENCE = 200_000;
/** Time that passes from one process to the next: longer than the leases that the dead one held. */
const PAUSE = 35_000;
/** Nothing arrives for so long: something is stuck. Longer than any lease, and than the longest pause of a probe. */
const STALL = 90_000;
/** No drain takes as long, however slow the machine. */
const DRAIN_LIMIT = 600_000;
const LOOK = 100;
const FROM_FILE = "select user_id from read_csv('members.csv', all_varchar = true)";
/** The same by the run's time, for a database that reads no files. */
const AS_OF_DAY = `select 'user' || n as user_id from generate_series(0, ${USERS - 1}) as users(n)
  where (n + 13 * cast(extract(epoch from $now - timestamp '2026-01-01') / 86400 as integer)) % 31 < 10`;
const REPORT_EVERY = 5_000;

/** One store that lives through many crashes, with a ledger of ids on both sides. */
export class Scenario {
  private readonly t: Test;
  private readonly newStore: () => Promise<string>;
  private readonly isBatched: boolean;
  private readonly engine: string | null;
  private readonly folder = mkdtempSync(join(tmpdir(), 'rollcall-crash-'));
  private readonly ledger = new Ledger();
  private readonly acknowledged = new Set<string>();
  /** Rounds in which the process did not come by its failpoint. */
  private readonly missed: Failpoint[] = [];
  private store = '';
  private port = 0;
  private lives = 0;
  private kills = 0;
  private sent = 0;
  private day = 0;

  private constructor(t: Test, { newStore, isBatched = false, engine }: ScenarioOptions) {
    this.t = t;
    this.newStore = newStore ?? (async () => `sqlite:./rollcall-${this.lives}.db`);
    this.isBatched = isBatched;
    this.engine = engine ?? null;
  }

  static async start(t: Test, options: ScenarioOptions = {}): Promise<Scenario> {
    const scenario = new Scenario(t, options);
    scenario.port = await scenario.ledger.listen();
    scenario.store = await scenario.newStore();
    return scenario;
  }

  /** Runs the service under load until it is killed. */
  async round(kill: Kill): Promise<void> {
    const failpoint = 'failpoint' in kill ? { name: kill.failpoint, passes: kill.passes } : null;
    const syncs = failpoint ? SYNC_POINTS.has(failpoint.name) : this.kills % 2 === 0;
    if (syncs) this.nextDay();
    const child = this.spawn(failpoint, syncs);
    const died = once(child, 'exit');
    if ('afterDeliveries' in kill) {
      void Promise.race([this.ledger.accepted(kill.afterDeliveries), died]).then(() => child.kill('SIGKILL'));
    } else if ('afterMs' in kill) {
      void Promise.race([setTimeout(kill.afterMs), died]).then(() => child.kill('SIGKILL'));
    }
    const address = await listening(child).catch(() => null);
    for (let batch = 0; isAlive(child) && address !== null && batch < BATCHES_LIMIT; batch += 1) {
      await this.send(address);
    }
    // Its work may take longer than the load lasts.
    if (failpoint) await Promise.race([died, setTimeout(PATIENCE, undefined, { ref: false })]);
    if (isAlive(child) && failpoint) this.missed.push(failpoint.name);
    await this.end(child, died);
  }

  /** Crashes inside the migration of an empty store, then takes messages into it, delivers them all, and crashes again. */
  async migrationRound(): Promise<void> {
    await this.renewStore();
    const migrating = this.spawn({ name: 'migration', passes: 1 }, false);
    await Promise.race([once(migrating, 'exit'), listening(migrating).catch(() => {})]);
    if (isAlive(migrating)) this.missed.push('migration');
    await this.end(migrating, once(migrating, 'exit'));
    const known = this.acknowledged.size;
    this.nextDay();
    const child = this.spawn(null, true);
    const died = once(child, 'exit');
    await this.send(await listening(child));
    if (this.acknowledged.size === known) throw new Error('The store took nothing after a crash inside its migration.');
    await this.drain();
    await this.end(child, died);
  }

  /** Starts once more undisturbed, and checks the books. */
  async finish(): Promise<void> {
    const { t } = this;
    this.nextDay();
    const child = this.spawn(null, true);
    const died = once(child, 'exit');
    await this.send(await listening(child));
    const { synced } = await told<{ synced: { error: string | null }[] }>(child, 'synced');
    t.same(
      synced.map(({ error }) => error),
      [null],
      'the sync works after all crashes',
    );
    const startedAt = performance.now();
    const left = this.left();
    await this.drain();
    t.comment(`${left} that were left arrived within ${Math.round((performance.now() - startedAt) / 1_000)} s`);
    child.kill('SIGTERM');
    const [code] = await died;
    t.equal(code, 0, 'the last process stops gracefully');
    await this.audit();
    this.ledger.close();
    rmSync(this.folder, { recursive: true });
  }

  private async audit(): Promise<void> {
    const { t } = this;
    const { messages, members, unverified, backwards } = this.ledger;
    t.same(this.missed, [], 'every process died where it was to die');
    t.ok(this.acknowledged.size > 0, 'messages were accepted');
    const lost = [...this.acknowledged].filter((id) => !messages.has(id));
    t.same(lost, [], 'no accepted message is lost');
    const entries = [...messages.values()];
    t.same(
      entries.filter(({ keys }) => keys.size > 1),
      [],
      'whatever came twice came with the same Idempotency-Key',
    );
    t.same(await this.repeated(entries), [], 'nothing was sent again by the process that had heard it was taken');
    const twice = entries.filter(({ lives }) => lives.size > 1).length;
    t.equal(unverified, 0, 'every delivery is signed');
    const built = [...members].filter(([, { value }]) => value).map(([user]) => user);
    t.same(built.sort(), [...this.members()].sort(), 'the membership that the receiver built is the current one');
    t.equal(backwards, 0, 'no membership change came after a newer one');
    const counts = `${this.acknowledged.size} accepted, ${lost.length} lost, ${messages.size} delivered`;
    t.comment(`${this.kills} kills: ${counts}, ${twice} of them again after a crash`);
  }

  /** Deliveries that came twice from one process, although none of its attempts ended without an answer, as on a busy machine. */
  private async repeated(entries: readonly Entry[]): Promise<Entry[]> {
    const store = await openStore({ url: this.store.replace(':./', `:${this.folder}/`), maxQueued: 1 }, systemClock);
    const unheard = async ({ keys }: Entry) => {
      if ([...keys].some((key) => this.ledger.unanswered.has(key))) return true;
      const attempts = await Promise.all([...keys].map((delivery) => store.attempts({ delivery, limit: 100 })));
      return attempts
        .flat()
        .some(({ outcome, status, error }) => outcome === 'retry' && (status === null || error === 'invalid_answer'));
    };
    const repeated: Entry[] = [];
    for (const entry of entries.filter(({ lives }) => [...lives.values()].some((times) => times > 1))) {
      if (!(await unheard(entry))) repeated.push(entry);
    }
    await store.close();
    return repeated;
  }

  /** Waits until all that was acknowledged has arrived, and the membership is that of the last day. */
  private async drain(): Promise<void> {
    const startedAt = performance.now();
    let arrivedAt = startedAt;
    let reportedAt = startedAt;
    for (let received = this.ledger.received; this.left() > 0; ) {
      await setTimeout(LOOK);
      const now = performance.now();
      if (this.ledger.received > received) arrivedAt = now;
      received = this.ledger.received;
      if (now - reportedAt >= REPORT_EVERY) {
        reportedAt = now;
        this.t.comment(`${this.left()} are still to arrive`);
      }
      if (now - arrivedAt < STALL && now - startedAt < DRAIN_LIMIT) continue;
      throw new Error(`${this.left()} did not arrive in ${Math.round((now - startedAt) / 1_000)} s.`);
    }
  }

  /** Messages and members that are still to arrive. */
  private left(): number {
    const { messages, members } = this.ledger;
    const expected = this.members();
    const wrong = [...members].filter(([user, { value }]) => value && !expected.has(user)).length;
    const missing = [...expected].filter((user) => !members.get(user)?.value).length;
    return [...this.acknowledged].filter((id) => !messages.has(id)).length + wrong + missing;
  }

  private async send(address: string): Promise<void> {
    const ids = Array.from({ length: BATCH }, (_, index) => `m${this.sent + index}`);
    this.sent += BATCH;
    const batch = ids.map((messageId) => ({ type: 'track', event: 'Bought', userId: `u${messageId}`, messageId }));
    try {
      const response = await fetch(`${address}/v1/batch`, {
        method: 'POST',
        headers: { authorization: `Basic ${btoa('shop-key:')}`, 'content-type': 'application/json' },
        body: JSON.stringify({ batch }),
      });
      if (response.status !== 200) return;
      await response.arrayBuffer();
      for (const id of ids) this.acknowledged.add(id);
    } catch {
      // The process died: nothing was acknowledged.
    }
  }

  private spawn(failpoint: { name: Failpoint; passes: number } | null, syncs: boolean): ChildProcess {
    this.lives += 1;
    const config = join(this.folder, 'rollcall.yaml');
    writeFileSync(config, JSON.stringify(this.config()));
    const syncAsOf = syncs ? FIRST_DAY + this.day * DAY : null;
    const orders = { config, failpoint, syncAsOf, ahead: this.lives * PAUSE };
    return fork(program('test/crash/service.ts'), [JSON.stringify(orders)], {
      stdio: ['ignore', 2, 2, 'ipc'],
      // Without the test runner's loaders, which double the time to start.
      execArgv: [],
      env: { ...process.env, NODE_OPTIONS: '' },
    });
  }

  private async end(child: ChildProcess, died: Promise<unknown>): Promise<void> {
    if (isAlive(child)) {
      child.kill('SIGKILL');
      await died;
    }
    this.kills += 1;
  }

  private config(): object {
    const webhook = {
      url: `http://127.0.0.1:${this.port}/`,
      headers: { [LIFE_HEADER]: String(this.lives) },
      batch: this.isBatched ? { size: 50, wait: '20ms' } : undefined,
    };
    return {
      store: this.store,
      listen: { host: '127.0.0.1', port: 0 },
      network: { allow: ['127.0.0.0/8'] },
      sources: [
        { id: 'shop', writeKey: 'shop-key' },
        { id: 'personas', writeKey: 'personas-key' },
      ],
      destinations: [{ name: 'crm', sources: ['shop', 'personas'], sharedSecret: SECRET, webhooks: [webhook] }],
      engines: {
        lake:
          this.engine === null
            ? { type: 'duckdb', path: './audiences.duckdb' }
            : { type: 'postgres', url: this.engine },
      },
      audiences: [
        {
          name: 'Regulars',
          source: 'personas',
          sql: this.engine === null ? FROM_FILE : AS_OF_DAY,
          guard: { allowEmpty: true },
        },
      ],
    };
  }

  /** The audience changes every day, and is not the same again for a month: every sync has something to send. */
  private members(): Set<string> {
    if (this.day === 0) return new Set();
    const users = Array.from({ length: USERS }, (_, index) => index);
    return new Set(users.filter((user) => (user + 13 * this.day) % 31 < 10).map((user) => `user${user}`));
  }

  private nextDay(): void {
    this.day += 1;
    writeFileSync(join(this.folder, 'members.csv'), ['user_id', ...this.members()].join('\n'));
  }

  /** A crash inside a migration needs a store that has it before it. All that the old one took has arrived. */
  private async renewStore(): Promise<void> {
    if (this.left() > 0) throw new Error('The old store still has messages.');
    this.store = await this.newStore();
    for (const suffix of ['', '.wal']) rmSync(join(this.folder, `audiences.duckdb${suffix}`), { force: true });
    this.ledger.members.clear();
    this.day = 0;
  }
}

function isAlive({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode === null && signalCode === null;
}

async function listening(child: ChildProcess): Promise<string> {
  return (await told<{ listening: string }>(child, 'listening')).listening;
}

function told<T extends object>(child: ChildProcess, what: string): Promise<T> {
  return new Promise((resolve, reject) => {
    child.on('message', (message: T) => what in message && resolve(message));
    child.once('exit', (code, signal) => reject(new Error(`the service ended with ${code ?? signal}`)));
  });
}
