import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import type { Failpoint } from '../../src/failpoint.ts';
import { Ledger, SECRET } from './ledger.ts';

/** How a round ends: at a failpoint, or after so many deliveries have arrived. */
export type Kill = { readonly failpoint: Failpoint; readonly passes: number } | { readonly afterDeliveries: number };

const SYNC_POINTS = new Set<Failpoint>(['sync_stage', 'sync_stream', 'sync_commit']);
const BATCH = 20;
/** Messages are sent until the process dies, but no more than this. */
const BATCHES_LIMIT = 400;
const DAY = 86_400_000;
const FIRST_DAY = Date.UTC(2026, 0, 1);
const USERS = 300;

/** One database that lives through many crashes, with a ledger of ids on both sides. */
export class Scenario {
  private readonly folder = mkdtempSync(join(tmpdir(), 'rollcall-crash-'));
  private readonly ledger = new Ledger();
  private readonly acknowledged = new Set<string>();
  private sent = 0;
  private day = 0;

  async start(): Promise<void> {
    const port = await this.ledger.listen();
    const config = {
      store: 'sqlite:./rollcall.db',
      listen: { host: '127.0.0.1', port: 0 },
      network: { allow: ['127.0.0.0/8'] },
      sources: [
        { id: 'shop', writeKey: 'shop-key' },
        { id: 'personas', writeKey: 'personas-key' },
      ],
      destinations: [
        {
          name: 'crm',
          sources: ['shop', 'personas'],
          sharedSecret: SECRET,
          webhooks: [{ url: `http://127.0.0.1:${port}/` }],
        },
      ],
      engines: { lake: { type: 'duckdb', path: './audiences.duckdb' } },
      audiences: [
        {
          name: 'Regulars',
          source: 'personas',
          sql: "select user_id from read_csv('members.csv', all_varchar = true)",
          guard: { allowEmpty: true },
        },
      ],
    };
    writeFileSync(join(this.folder, 'rollcall.yaml'), JSON.stringify(config));
  }

  /** Runs the service under load until it is killed. */
  async round(kill: Kill): Promise<void> {
    if ('failpoint' in kill && kill.failpoint === 'migration') this.renewDatabase();
    const syncs = 'failpoint' in kill ? SYNC_POINTS.has(kill.failpoint) : this.sent % 2 === 0;
    if (syncs) this.nextDay();
    const failpoint = 'failpoint' in kill ? { name: kill.failpoint, passes: kill.passes } : null;
    const child = this.spawn(failpoint, syncs);
    const died = once(child, 'exit');
    const address = await listening(child).catch(() => null);
    if ('afterDeliveries' in kill) {
      void Promise.race([this.ledger.accepted(kill.afterDeliveries), died]).then(() => child.kill('SIGKILL'));
    }
    let alive = true;
    void died.then(() => {
      alive = false;
    });
    for (let batch = 0; alive && address !== null && batch < BATCHES_LIMIT; batch += 1) await this.send(address);
    if (alive) child.kill('SIGKILL');
    await died;
  }

  /** Starts once more undisturbed, and checks the books. */
  async finish(t: Test): Promise<void> {
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
    await this.untilDelivered();
    child.kill('SIGTERM');
    const [code] = await died;
    t.equal(code, 0, 'the last process stops gracefully');
    this.audit(t);
    this.ledger.close();
    rmSync(this.folder, { recursive: true });
  }

  private audit(t: Test): void {
    const { messages, members, unverified } = this.ledger;
    t.ok(this.acknowledged.size > 0, `messages were accepted (${this.acknowledged.size})`);
    const lost = [...this.acknowledged].filter((id) => !messages.has(id));
    t.same(lost, [], 'no accepted message is lost');
    const otherKeys = [...messages.values()].filter(({ keys }) => keys.size > 1);
    t.same(otherKeys, [], 'whatever came twice came with the same Idempotency-Key');
    const twice = [...messages.values()].filter(({ times }) => times > 1).length;
    t.comment(`${this.acknowledged.size} accepted, ${messages.size} delivered, ${twice} of them more than once`);
    t.equal(unverified, 0, 'every delivery is signed');
    const expected = this.membersOf(this.day);
    const built = [...members].filter(([, { value }]) => value).map(([user]) => user);
    t.same(built.sort(), [...expected].sort(), 'the membership that the receiver built is the current one');
  }

  private async untilDelivered(): Promise<void> {
    const expected = this.membersOf(this.day);
    const isDone = () =>
      [...this.acknowledged].every((id) => this.ledger.messages.has(id)) &&
      [...this.ledger.members].filter(([, { value }]) => value).length === expected.size &&
      [...expected].every((user) => this.ledger.members.get(user)?.value);
    while (!isDone()) await this.ledger.accepted(1);
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
    const orders = {
      config: join(this.folder, 'rollcall.yaml'),
      failpoint,
      syncAsOf: syncs ? FIRST_DAY + this.day * DAY : null,
    };
    return fork(new URL('./service.ts', import.meta.url), [JSON.stringify(orders)], {
      stdio: ['ignore', 2, 2, 'ipc'],
      // Without the test runner's loaders, which double the time to start.
      execArgv: [],
      env: { ...process.env, NODE_OPTIONS: '' },
    });
  }

  /** The audience changes every day: a third of the users, shifted. */
  private membersOf(day: number): Set<string> {
    const users = Array.from({ length: USERS }, (_, index) => index);
    return new Set(users.filter((user) => (user + day) % 3 === 0).map((user) => `user${user}`));
  }

  private nextDay(): void {
    this.day += 1;
    writeFileSync(join(this.folder, 'members.csv'), ['user_id', ...this.membersOf(this.day)].join('\n'));
  }

  /** A crash inside a migration needs a database that has it before it. */
  private renewDatabase(): void {
    for (const suffix of ['', '-wal', '-shm']) rmSync(join(this.folder, `rollcall.db${suffix}`), { force: true });
    rmSync(join(this.folder, 'audiences.duckdb'), { force: true });
    for (const id of [...this.acknowledged]) if (!this.ledger.messages.has(id)) this.acknowledged.delete(id);
    this.ledger.members.clear();
  }
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
