import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { Test } from 'tap';
import { systemClock } from '../../src/kernel/clock.ts';
import { openStore } from '../../src/store/open.ts';
import type { DeadLetter } from '../../src/store/port.ts';
import { program } from '../helpers/programs.ts';
import { Ledger, LIFE_HEADER, SECRET } from './ledger.ts';

const POISON = 'poison-7c1f';
const BATCH = 50;
/** Time that passes from one process to the next: longer than the leases that the dead one held. */
const PAUSE = 35_000;
const LOOK = 250;
/** Processes that may be needed at most. */
const LIVES_LIMIT = 8;

/** A service that is started again whenever it ends, as a supervisor would do. */
class Service {
  readonly ledger = new Ledger();
  readonly acknowledged = new Set<string>();
  deaths = 0;
  private readonly folder = mkdtempSync(join(tmpdir(), 'rollcall-killer-'));
  private readonly store: string;
  private readonly poison: string | null;
  private port = 0;
  private sent = 0;

  constructor(store: string, poison: string | null) {
    this.store = store;
    this.poison = poison;
  }

  /** Starts a process; resolves once it listens, or has ended before. */
  async start(): Promise<{ readonly child: ChildProcess; readonly address: string | null }> {
    if (this.port === 0) this.port = await this.ledger.listen();
    const config = join(this.folder, 'rollcall.yaml');
    writeFileSync(config, JSON.stringify(this.config()));
    const orders = { config, failpoint: null, syncAsOf: null, ahead: (this.deaths + 1) * PAUSE, poison: this.poison };
    const child = fork(program('test/crash/service.ts'), [JSON.stringify(orders)], {
      stdio: ['ignore', 2, 2, 'ipc'],
      execArgv: [],
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    child.once('exit', () => {
      this.deaths += 1;
    });
    const { promise, resolve } = Promise.withResolvers<string | null>();
    child.on('message', (told: { listening?: string }) => resolve(told.listening ?? null));
    child.once('exit', () => resolve(null));
    return { child, address: await promise };
  }

  async send(address: string, extra: readonly string[] = []): Promise<void> {
    const ids = [...extra, ...Array.from({ length: BATCH }, (_, index) => `m${this.sent + index}`)];
    this.sent += BATCH;
    const batch = ids.map((messageId) => ({ type: 'track', event: 'Bought', userId: `u${messageId}`, messageId }));
    try {
      const response = await fetch(`${address}/v1/batch`, {
        method: 'POST',
        headers: { authorization: `Basic ${btoa('shop-key:')}`, 'content-type': 'application/json' },
        body: JSON.stringify({ batch }),
      });
      await response.arrayBuffer();
      if (response.status === 200) for (const id of ids) this.acknowledged.add(id);
    } catch {
      // The process died: nothing was acknowledged.
    }
  }

  /** Messages that were acknowledged and have not arrived, but for the one that can't. */
  get left(): number {
    return [...this.acknowledged].filter((id) => id !== POISON && !this.ledger.messages.has(id)).length;
  }

  async deadLetters(): Promise<readonly DeadLetter[]> {
    const store = await openStore({ url: this.store.replace(':./', `:${this.folder}/`), maxQueued: 1 }, systemClock);
    try {
      return await store.deadLetters({ limit: 1_000 });
    } finally {
      await store.close();
    }
  }

  remove(): void {
    this.ledger.close();
    rmSync(this.folder, { recursive: true });
  }

  private config(): object {
    const webhook = { url: `http://127.0.0.1:${this.port}/`, headers: { [LIFE_HEADER]: String(this.deaths) } };
    return {
      store: this.store,
      listen: { host: '127.0.0.1', port: 0 },
      network: { allow: ['127.0.0.0/8'] },
      sources: [{ id: 'shop', writeKey: 'shop-key' }],
      destinations: [{ name: 'crm', sources: ['shop'], sharedSecret: SECRET, webhooks: [webhook] }],
    };
  }
}

const isAlive = ({ exitCode, signalCode }: ChildProcess) => exitCode === null && signalCode === null;

async function end(child: ChildProcess): Promise<void> {
  if (!isAlive(child)) return;
  const died = once(child, 'exit');
  child.kill('SIGKILL');
  await died;
}

/** A delivery that ends the process each time that it is posted, among innocents. */
export async function findKiller(t: Test, store = 'sqlite:./rollcall.db'): Promise<void> {
  const service = new Service(store, POISON);
  t.teardown(() => service.remove());
  let isSent = false;
  for (let life = 1; ; life += 1) {
    if (life > LIVES_LIMIT) throw new Error(`The service ended ${service.deaths} times.`);
    const { child, address } = await service.start();
    if (address !== null && !isSent) {
      await service.send(address);
      await service.send(address, [POISON]);
      isSent = service.acknowledged.has(POISON);
    }
    // By itself: until it dies, or lives on and has done all that it can.
    while (isAlive(child) && (service.left > 0 || !isSent || (await service.deadLetters()).length === 0)) {
      await setTimeout(LOOK);
      if (!isSent && address !== null) break;
    }
    const lives = isAlive(child);
    await end(child);
    if (lives && isSent) {
      // The last end was ours.
      t.equal(service.deaths - 1, 3, 'it took three ends to find it');
      break;
    }
  }
  t.match(await service.deadLetters(), [{ messageId: POISON, reason: 'undeliverable' }]);
  t.equal(service.left, 0, 'every innocent is delivered');
  t.notOk(service.ledger.messages.has(POISON));
  t.comment(`${service.acknowledged.size} accepted, ${service.deaths - 1} ends by the delivery`);
}

/** So many kills from outside, under full load. */
export async function kill(t: Test, kills: number, store = 'sqlite:./rollcall.db'): Promise<void> {
  const service = new Service(store, null);
  t.teardown(() => service.remove());
  for (let n = 0; n < kills; n += 1) {
    const { child, address } = await service.start();
    void service.ledger.accepted(40).then(() => child.kill('SIGKILL'));
    while (isAlive(child) && address !== null) {
      await Promise.all([service.send(address), service.send(address)]);
    }
    await end(child);
  }
  const { child } = await service.start();
  while (service.left > 0) await setTimeout(LOOK);
  t.same(await service.deadLetters(), [], 'nobody is buried');
  await end(child);
  t.ok(service.acknowledged.size > 0);
  t.comment(`${kills} kills: ${service.acknowledged.size} accepted, 0 lost, 0 undeliverable`);
}
