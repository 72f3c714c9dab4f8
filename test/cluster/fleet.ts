import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { systemClock } from '../../src/kernel/clock.ts';
import { openStore } from '../../src/store/open.ts';
import type { DeadLetter, Orphan, Run, Store } from '../../src/store/port.ts';
import { AS_ADMIN } from '../helpers/admin.ts';
import { program } from '../helpers/programs.ts';
import {
  fileOf,
  randomVariant,
  SECRETS,
  type Surroundings,
  served,
  usersOf,
  type Variant,
  WHOLE,
} from './fleet-config.ts';
import { FleetLedger } from './fleet-ledger.ts';

const MAIN = program('src/cli/main.ts');
/** Longest wait for what must come, in milliseconds. */
const PATIENCE = 300_000;
const ONCE_PATIENCE = 15_000;
const BATCH = 20;

export interface FleetOptions {
  /** Of the database; a SQLite file in the fleet's folder unless given. */
  readonly database?: string;
  readonly removedAfter: string;
  readonly seed: number;
}

/** A process of the real program, and the configuration that it goes by. */
interface Member {
  readonly file: string;
  variant: Variant;
  process: ChildProcess;
  address: string;
  /** While it is changed it takes no load: nobody could say by which configuration. */
  busy: boolean;
}

/** Faults done to the fleet. */
export interface Counts {
  starts: number;
  reloads: number;
  kills: number;
  once: number;
}

/** Processes of the real program on one store, whose configurations differ, under load. */
export class FleetRun {
  readonly counts: Counts = { starts: 0, reloads: 0, kills: 0, once: 0 };
  readonly ledger: FleetLedger;
  readonly random: (most: number) => number;
  /** `destination messageId` of what was acknowledged. */
  readonly expected = new Set<string>();
  readonly members: Member[] = [];
  private readonly folder: string;
  private surroundings: Surroundings;
  private store: Store | null = null;
  private sent = 0;
  private loading: Promise<void> | null = null;
  private stopLoad = false;
  private readonly log: string[] = [];

  private constructor(
    folder: string,
    surroundings: Surroundings,
    ledger: FleetLedger,
    random: (most: number) => number,
  ) {
    this.folder = folder;
    this.surroundings = surroundings;
    this.ledger = ledger;
    this.random = random;
  }

  static async create({ database, removedAfter, seed }: FleetOptions): Promise<FleetRun> {
    const folder = await mkdtemp(join(tmpdir(), 'rollcall-fleet-'));
    const random = randomNumbers(seed);
    const ledger = new FleetLedger(Object.values(SECRETS), randomNumbers(seed + 1));
    const receiver = await ledger.listen();
    const store = database ?? `sqlite:${join(folder, 'rollcall.db')}`;
    const engine = database
      ? { type: 'postgres', url: database }
      : { type: 'duckdb', path: join(folder, 'lake.duckdb'), threads: 1 };
    return new FleetRun(folder, { store, engine, receiver, removedAfter }, ledger, random);
  }

  async start(variant: Variant): Promise<void> {
    const file = join(this.folder, `${this.members.length}.yaml`);
    const member: Member = { file, variant, address: '', busy: true, process: null as never };
    this.members.push(member);
    await this.launch(member, variant);
  }

  /** Goes from one configuration to another, as a rolling update does: by a stop or kill and a start, or by a reload. */
  async change(member: Member, variant: Variant, how: 'restart' | 'kill' | 'reload'): Promise<void> {
    member.busy = true;
    if (how !== 'reload') {
      await this.end(member, how === 'kill' ? 'SIGKILL' : 'SIGTERM');
      await this.launch(member, variant);
      return;
    }
    this.counts.reloads += 1;
    await writeFile(member.file, fileOf(variant, this.surroundings));
    const reloaded = fetch(`${member.address}/api/v1/config/reload`, { method: 'POST', headers: AS_ADMIN });
    if (!(await reloaded).ok) throw new Error(`The reload was refused: ${await (await reloaded).text()}`);
    member.variant = variant;
    member.busy = false;
  }

  /** `rollcall sync --once` with a file of its own, beside what runs. */
  async syncOnce(variant: Variant): Promise<void> {
    this.counts.once += 1;
    const file = join(this.folder, 'once.yaml');
    await writeFile(file, fileOf(variant, this.surroundings));
    const child = this.fork(['sync', '--once', '--yes', '-c', file]);
    const exited = once(child, 'exit');
    // It waits for what it sent, which under load may take long; a person would not wait either.
    await Promise.race([exited, pause(ONCE_PATIENCE, undefined, { ref: false })]);
    child.kill('SIGTERM');
    await exited;
  }

  /** Rolls all members forward, sometimes back on the way, with a command of yet another configuration beside them. */
  async roll({ kills, once }: { readonly kills: boolean; readonly once: boolean }): Promise<void> {
    const next = randomVariant(this.random);
    const ways = ['restart', 'reload', ...(kills ? (['kill'] as const) : [])] as const;
    const turnBack = this.random(3) === 1 ? this.random(this.members.length) : Number.POSITIVE_INFINITY;
    const before = this.members.map(({ variant }) => variant);
    for (const [place, member] of this.members.entries()) {
      await this.change(member, next, ways[this.random(ways.length) - 1] ?? 'restart');
      await pause(this.random(1_500));
      if (place + 1 < turnBack) continue;
      for (const [index, each] of this.members.slice(0, place + 1).entries()) {
        await this.change(each, before[index] ?? next, 'restart');
      }
      break;
    }
    if (once && this.random(2) === 1) await this.syncOnce(randomVariant(this.random));
  }

  load(): void {
    this.stopLoad = false;
    this.loading = this.keepLoading();
  }

  async endLoad(): Promise<void> {
    this.stopLoad = true;
    await this.loading;
  }

  /** Sends messages until so many batches were acknowledged. */
  async send(batches: number): Promise<void> {
    for (let done = 0; done < batches; ) if (await this.sendBatch()) done += 1;
  }

  /** All of a fleet that is down at once. */
  async stopAll(): Promise<void> {
    await Promise.all(this.members.map((member) => this.end(member, 'SIGTERM')));
  }

  async startAll(variant: Variant): Promise<void> {
    for (const member of this.members) await this.launch(member, variant);
  }

  missing(): string[] {
    return [...this.expected].filter((each) => !this.ledger.taken.has(each));
  }

  /** Audiences in which somebody is told something else than the last configuration says. */
  astray(): string[] {
    const wanted = { big: usersOf(WHOLE.sql), stars: usersOf('same'), vip: [] as string[] };
    return Object.entries(wanted).flatMap(([key, users]) =>
      ['crm', 'extra'].flatMap((destination) => {
        const told = this.ledger.members(destination, key);
        return told.join() === users.join() ? [] : [`${destination} ${key}: ${told.join()}`];
      }),
    );
  }

  /** Ends the load, brings all to one configuration that has everything, and waits for what was acknowledged. */
  async settle(): Promise<void> {
    await this.endLoad();
    for (const member of this.members) if (member.variant !== WHOLE) await this.change(member, WHOLE, 'restart');
    await this.until(() => this.missing().length + this.astray().length === 0);
  }

  /** Resolves once `isDone`, or after a long time: what is left is for the test to tell. */
  async until(isDone: () => boolean): Promise<void> {
    await Promise.race([this.ledger.until(isDone), pause(PATIENCE, undefined, { ref: false })]);
  }

  /** Resolves to the dead letters of just before. */
  async untilOrphans(isDone: (orphans: readonly Orphan[]) => boolean): Promise<readonly DeadLetter[]> {
    const store = await this.opened();
    for (const end = performance.now() + PATIENCE; performance.now() < end; await pause(100)) {
      const letters = await this.deadLetters();
      if (isDone(await store.orphans())) return letters;
    }
    throw new Error(`The orphans are not as they should be: ${JSON.stringify(await store.orphans())}`);
  }

  async deadLetters(): Promise<readonly DeadLetter[]> {
    return (await this.opened()).deadLetters({ limit: 100_000 });
  }

  async replay(letters: readonly DeadLetter[]): Promise<number> {
    return (await this.opened()).replay(letters.map(({ id }) => ({ id, body: null })));
  }

  async pending(): Promise<number> {
    return (await (await this.opened()).backlog()).reduce((sum, { pending }) => sum + pending, 0);
  }

  /** How often the definition of an audience changed from one run that was sent to the next. */
  async turns(key: string): Promise<number> {
    const runs = (await (await this.opened()).runs({ key, states: ['done'], limit: 100_000 }))
      .filter(isSync)
      .toReversed();
    return runs.filter(({ definitionHash }, place) => place > 0 && definitionHash !== runs[place - 1]?.definitionHash)
      .length;
  }

  async close(): Promise<string> {
    this.stopLoad = true;
    for (const member of this.members) if (isAlive(member.process)) await this.end(member, 'SIGKILL');
    await this.loading?.catch(() => undefined);
    await this.store?.close();
    await this.ledger.close();
    await rm(this.folder, { recursive: true, force: true });
    return this.log.slice(-20).join('\n');
  }

  private async opened(): Promise<Store> {
    this.store ??= await openStore({ url: this.surroundings.store, maxQueued: 1_000_000 }, systemClock);
    return this.store;
  }

  private async launch(member: Member, variant: Variant): Promise<void> {
    this.counts.starts += 1;
    await writeFile(member.file, fileOf(variant, this.surroundings));
    member.process = this.fork(['start', '--yes', '-c', member.file]);
    member.address = await this.addressOf(member.process);
    member.variant = variant;
    member.busy = false;
  }

  private async end(member: Member, signal: NodeJS.Signals): Promise<void> {
    member.busy = true;
    if (signal === 'SIGKILL') this.counts.kills += 1;
    const exited = once(member.process, 'exit');
    member.process.kill(signal);
    await exited;
  }

  private fork(args: readonly string[]): ChildProcess {
    // Without the test runner's loaders, which double the time to start.
    const env = { ...process.env, NODE_OPTIONS: '' };
    return fork(MAIN, args, { stdio: ['ignore', 'ignore', 'pipe', 'ipc'], execArgv: [], env });
  }

  private addressOf(child: ChildProcess): Promise<string> {
    return new Promise((resolve, reject) => {
      const said: string[] = [];
      createInterface({ input: child.stderr as NonNullable<ChildProcess['stderr']> }).on('line', (line) => {
        said.push(line);
        this.log.push(line.slice(0, 500));
        if (this.log.length > 200) this.log.shift();
        const [address] = /http:\/\/127\.0\.0\.1:\d+/.exec(line) ?? [];
        if (address && line.includes('answers at')) resolve(address);
      });
      child.once('exit', (code, signal) => reject(new Error(`ended with ${code ?? signal}: ${said.join('\n')}`)));
    });
  }

  private async keepLoading(): Promise<void> {
    while (!this.stopLoad) {
      await this.sendBatch();
      await pause(100);
    }
  }

  private async sendBatch(): Promise<boolean> {
    const free = this.members.filter(({ busy }) => !busy);
    const member = free[this.sent % Math.max(1, free.length)];
    if (!member) {
      await pause(20);
      return false;
    }
    const { variant } = member;
    const ids = Array.from({ length: BATCH }, () => `m${this.sent++}`);
    const batch = ids.map((messageId) => ({ type: 'track', event: 'Bought', userId: `u${messageId}`, messageId }));
    try {
      const response = await fetch(`${member.address}/v1/batch`, {
        method: 'POST',
        headers: { authorization: `Basic ${btoa('shop-key:')}`, 'content-type': 'application/json' },
        body: JSON.stringify({ batch }),
      });
      await response.arrayBuffer();
      if (response.status !== 200) return false;
      // Changed meanwhile: it may have gone by either of two configurations.
      if (member.busy || member.variant !== variant) return false;
      for (const id of ids) for (const name of served(variant)) this.expected.add(`${name} ${id}`);
      return true;
    } catch {
      return false;
    }
  }
}

const isAlive = ({ exitCode, signalCode }: ChildProcess) => exitCode === null && signalCode === null;
const isSync = ({ action }: Run) => action === 'sync';

/** A whole number from 1 to `most`, the same ones in every run of one seed (mulberry32). */
export function randomNumbers(seed: number): (most: number) => number {
  let state = seed;
  return (most) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return 1 + (((mixed ^ (mixed >>> 14)) >>> 0) % most);
  };
}
