import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { systemClock } from '../../src/kernel/clock.ts';
import type { Store } from '../../src/store/port.ts';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { openPostgresStore } from '../../src/store/postgres/store.ts';
import { startFastPostgres } from '../helpers/postgres.ts';
import { program } from '../helpers/programs.ts';
import { type DeletionReport, Deletions } from './deletions.ts';
import { randomNumbers } from './fleet.ts';
import { Ledger } from './ledger.ts';
import type { MemberOptions, Task } from './member.ts';
import { isMember, PARITY } from './parity.ts';
import { startProxy } from './proxy.ts';

/** A database that goes away now and then. */
export interface ClusterDatabase {
  /** Where the processes find it, and where the checks do. */
  readonly url: string;
  readonly direct: string;
  cut(): void;
  crash(): Promise<void>;
  close(): Promise<void>;
}

/** A plan of faults, in place of the usual ones. */
export type Play = (cluster: {
  readonly ledger: Ledger;
  /** How many messages have been sent: those from now on have higher numbers. */
  readonly sent: () => number;
}) => Promise<void>;

export interface ClusterOptions {
  readonly processes: number;
  /** How long faults go on, in milliseconds. */
  readonly duration: number;
  readonly speed: number;
  /** Between two faults, in milliseconds. */
  readonly every: number;
  readonly seed: number;
}

/** Must have happened before faults end, unless so many times their duration are over. */
export const LEAST = { accepted: 200, ticks: 4 };
const PATIENCE = 8;

/** The faults that the cluster went through, and their outcome. */
export interface Report {
  accepted: number;
  lost: number;
  ticks: number;
  wrong: number;
  /** Seconds, which are the ticks of the scheduled audience, in which one run of it was begun, none, or several. */
  schedule: { once: number; missed: number; twice: number };
  /** Its users whose membership is not what its last run computed. */
  astray: number;
  backwards: number;
  overlaps: number;
  repeats: number;
  deletions: DeletionReport;
  seed: number;
  faults: Record<Fault, number>;
}

type Fault = 'kill' | 'stop' | 'cut' | 'crash';
const PARITY_USERS = Array.from({ length: PARITY.users }, (_, n) => n + 1);
const USERS = Array.from({ length: 20 }, (_, n) => `user-${n}`);
/** Longer than a process's lease, in milliseconds of its clock. */
const STOPPED_FOR = 25_000;

interface Member {
  readonly process: ChildProcess;
  stopped: boolean;
}

/** Several processes on one Postgres, under load, while things break. Everything that was acknowledged must arrive. */
export class Cluster {
  private readonly options: ClusterOptions;
  private readonly database: ClusterDatabase;
  private readonly ledger: Ledger;
  private readonly memberOptions: MemberOptions;
  private readonly members = new Set<Member>();
  private readonly acknowledged = new Set<string>();
  private readonly faults: Report['faults'] = { kill: 0, stop: 0, cut: 0, crash: 0 };
  private readonly wakeUps: Promise<void>[] = [];
  private readonly wakes: number[] = [];
  private sent = 0;
  private tick = 0;

  private constructor(options: ClusterOptions, database: ClusterDatabase, ledger: Ledger, given: MemberOptions) {
    this.options = options;
    this.database = database;
    this.ledger = ledger;
    this.memberOptions = given;
  }

  /** @param play - in place of faults of our own for the duration: the load goes on until it is over */
  static async run(options: ClusterOptions, given?: ClusterDatabase, play?: Play): Promise<Report> {
    const database = given ?? (await singleDatabase());
    const ledger = new Ledger();
    const receiver = await ledger.listen();
    const cluster = new Cluster(options, database, ledger, { database: database.url, receiver, speed: options.speed });
    try {
      await migratePostgres(database.direct);
      return await cluster.play(play);
    } finally {
      for (const { process } of cluster.members) process.kill('SIGKILL');
      await ledger.close();
      await database.close();
    }
  }

  private async play(play?: Play): Promise<Report> {
    const { processes, duration, every } = this.options;
    await Promise.all(Array.from({ length: processes }, () => this.start()));
    const started = performance.now();
    const isEnough = () => this.acknowledged.size > LEAST.accepted && this.tick > LEAST.ticks;
    // On a busy machine it goes on until there was something to lose.
    let isPlayed = false;
    const isOver = play ? () => isPlayed : () => performance.now() > started + duration * (isEnough() ? 1 : PATIENCE);
    const store = await openPostgresStore({ url: this.database.direct, maxQueued: 1, clock: systemClock });
    const deletions = this.deletions(store);
    const load = Promise.all([
      this.load(isOver),
      this.tellOfSome(deletions, isOver),
      deletions.keepFiling(isOver, this.options.every / 2),
    ]);
    const kinds: readonly Fault[] = ['kill', 'cut', 'stop', 'kill', 'crash', 'cut', 'kill', 'stop'];
    for (let n = 0; !play && !isOver(); n += 1) {
      await pause(every);
      await this.strike(kinds[n % kinds.length] ?? 'kill');
    }
    try {
      await play?.({ ledger: this.ledger, sent: () => this.sent });
    } finally {
      isPlayed = true;
    }
    await load;
    await Promise.all(this.wakeUps);
    await deletions.settle(60_000 + 90_000 / this.options.speed);
    await this.finalTick();
    const { schedule, asOf } = await this.endSchedules();
    // Who never entered has been told nothing: on a busy machine all runs may fall into seconds of one parity.
    const isIn = (n: number) => this.ledger.members.get(`p${n}`)?.value ?? false;
    const astray = () => PARITY_USERS.filter((n) => isIn(n) !== isMember(n, asOf)).length;
    const missing = () => [...this.acknowledged].filter((id) => !this.ledger.taken.has(id)).length;
    const wrong = () => USERS.filter((user) => this.ledger.values.get(user) !== this.tick).length;
    const patience = pause(60_000 + 90_000 / this.options.speed, undefined, { ref: false });
    await Promise.race([this.ledger.until(() => missing() + wrong() + astray() === 0), patience]);
    const { backwards, overlaps, repeats } = this.ledger;
    const counts = {
      accepted: this.acknowledged.size,
      lost: missing(),
      ticks: this.tick,
      wrong: wrong(),
      astray: astray(),
    };
    await this.stopAll();
    await store.close();
    const { seed } = this.options;
    const deleted = deletions.report();
    return { ...counts, schedule, backwards, overlaps, repeats, deletions: deleted, seed, faults: this.faults };
  }

  private deletions(store: Store): Deletions {
    let n = 0;
    return new Deletions({
      arrivals: this.ledger.aboutVictims,
      wakes: this.wakes,
      random: randomNumbers(this.options.seed),
      file: async (forget, type) => {
        n += 1;
        const id = await this.answerOf({ forget, type, n });
        // Whoever was asked may be on its way out, and so may be all.
        if (id === null) await pause(50);
        return id;
      },
      statusOf: (id) =>
        store.regulation(id).then(
          (found) => found?.status ?? null,
          () => null,
        ),
    });
  }

  private async tellOfSome(deletions: Deletions, isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      await Promise.all([this.ask({ about: deletions.someone, recordedAt: Date.now() }), pause(20)]);
    }
  }

  private async start(): Promise<void> {
    const process = fork(program('test/cluster/member.ts'), [JSON.stringify(this.memberOptions)], { execArgv: [] });
    const member: Member = { process, stopped: false };
    const ready = once(process, 'message').then(() => true);
    const exited = once(process, 'exit').then(() => false);
    // A member that finds the database gone ends, as a supervisor expects, and is started again.
    if (await Promise.race([ready, exited])) {
      this.members.add(member);
      process.once('exit', () => this.members.delete(member));
    } else await this.start();
  }

  private async load(isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      await Promise.all([this.acceptSome(), this.acceptSome(), this.syncOnce(), pause(20)]);
    }
  }

  private async acceptSome(): Promise<void> {
    const ids = Array.from({ length: 10 }, () => `m${this.sent++}`);
    if (await this.ask({ accept: ids })) for (const id of ids) this.acknowledged.add(id);
  }

  /** The next tick, unless the one before is not known to be done; two members are asked, one may have it. */
  private async syncOnce(): Promise<void> {
    const task = { tick: this.tick + 1, users: USERS };
    const done = await Promise.all([this.ask(task), this.ask(task)]);
    if (done.includes(true)) this.tick += 1;
  }

  private async finalTick(): Promise<void> {
    for (const before = this.tick; this.tick === before; await pause(50)) await this.syncOnce();
  }

  /** Resolves to what became of the ticks, and to the time that the last run was computed for. */
  private async endSchedules(): Promise<{ schedule: Report['schedule']; asOf: number }> {
    await Promise.all([...this.members].map((member) => this.askMember(member, { unschedule: true })));
    const store = await openPostgresStore({ url: this.database.direct, maxQueued: 1, clock: systemClock });
    const scheduled = await store.runs({ key: PARITY.key, limit: 10_000 });
    while (!(await this.ask({ conclude: true })));
    const [last] = await store.runs({ key: PARITY.key, limit: 1 });
    await store.close();
    const starts = scheduled.map(({ startedAt }) => Math.floor(startedAt / PARITY.every));
    const [begin, end] = [Math.min(...starts), Math.max(...starts)];
    const perTick = Array.from({ length: end - begin + 1 }, (_, n) => starts.filter((at) => at === begin + n).length);
    const ticks = (isSo: (runs: number) => boolean) => perTick.filter(isSo).length;
    const schedule = { once: ticks((n) => n === 1), missed: ticks((n) => n === 0), twice: ticks((n) => n > 1) };
    return { schedule, asOf: last?.asOf ?? 0 };
  }

  /** Whether a running member did it, as it said itself. */
  private async ask(task: Task): Promise<boolean> {
    return (await this.answerOf(task)) !== null;
  }

  private async answerOf(task: Task): Promise<string | null> {
    const running = [...this.members].filter(({ stopped }) => !stopped);
    const member = running[Math.floor(Math.random() * running.length)];
    return member ? this.askMember(member, task) : null;
  }

  /** Resolves to what it made, if anything; null if it did not do it. */
  private askMember({ process }: Member, task: Task): Promise<string | null> {
    return new Promise<string | null>((resolve) => {
      const text = JSON.stringify(task);
      const finish = (done: boolean, id = '') => {
        process.off('message', onMessage);
        process.off('exit', onExit);
        clearTimeout(timer);
        resolve(done ? id : null);
      };
      const onMessage = (answer: { task: Task; done: boolean; id?: string }) => {
        if (JSON.stringify(answer.task) === text) finish(answer.done, answer.id);
      };
      const onExit = () => finish(false);
      // A member may be stopped before it answers.
      const timer = setTimeout(() => finish(false), 20_000);
      process.on('message', onMessage);
      process.on('exit', onExit);
      process.send(task, (error) => error && finish(false));
    });
  }

  private async strike(fault: Fault): Promise<void> {
    this.faults[fault] += 1;
    const [member] = [...this.members].filter(({ stopped }) => !stopped);
    if (fault === 'cut') this.database.cut();
    else if (fault === 'crash') await this.database.crash();
    else if (fault === 'kill' && member) {
      const exited = once(member.process, 'exit');
      member.process.kill('SIGKILL');
      await exited;
      await this.start();
    } else if (fault === 'stop' && member) this.wakeUps.push(this.suspend(member));
  }

  private async suspend(member: Member): Promise<void> {
    member.stopped = true;
    member.process.kill('SIGSTOP');
    await pause(STOPPED_FOR / this.options.speed);
    this.wakes.push(Date.now());
    member.process.kill('SIGCONT');
    member.stopped = false;
  }

  private async stopAll(): Promise<void> {
    await Promise.all(
      [...this.members].map(async ({ process }) => {
        const exited = once(process, 'exit');
        process.send({ stop: true } satisfies Task);
        await exited;
      }),
    );
  }
}

/** One Postgres, behind a proxy that can cut its connections. */
async function singleDatabase(): Promise<ClusterDatabase> {
  const server = await startFastPostgres();
  const proxy = await startProxy(server.port);
  const direct = await server.database();
  const url = new URL(direct);
  url.port = String(proxy.port);
  return {
    url: url.href,
    direct,
    cut: () => proxy.cut(),
    crash: () => server.crash(),
    async close() {
      await proxy.close();
      await server.stop();
    },
  };
}
