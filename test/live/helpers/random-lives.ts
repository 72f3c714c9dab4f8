import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import pg from 'pg';
import type { Test } from 'tap';
import type { LoggedEvent } from '../../definitions/helpers/event.ts';
import { program } from '../../helpers/programs.ts';
import { isOnPostgres, unsharedPostgres } from '../../helpers/store.ts';
import { seeded } from './events.ts';
import { type Answer, type Asked, type Crash, eventsOf, type Orders, payloadOf } from './random-terms.ts';

const CHILD = program('test/live/helpers/random-life.ts');
const START = Date.parse('2026-03-01T12:00:00.000Z');
const DAY = 86_400_000;
/** Days and their edges, as the windows have them. */
const PAUSES = [0, 0, 1, 3_600_000, DAY - 1, DAY, DAY + 1];
/** Batches that come in until a life ends; on the way it may have too little to do to pass its failpoint. */
const MOST_BATCHES = 12;
const LAST_BATCHES = 8;

type Compared = Extract<Answer, { readonly compared: number }>;

/** Random definitions over what random people do, in lives that end by being killed. */
export class RandomLives {
  readonly counts = {
    compared: 0,
    found: 0,
    instants: 0,
    lives: 0,
    killed: 0,
    inBuild: 0,
    events: 0,
    deleted: 0,
    down: 0,
  };
  readonly differences: string[] = [];
  private readonly t: Test;
  private readonly seed: number;
  private readonly groups: number;
  private readonly random: () => number;
  private readonly folder: string;
  private readonly url: string;
  private waiting: LoggedEvent[] = [];
  private now = START;

  constructor(t: Test, seed: number, groups: number) {
    this.t = t;
    this.seed = seed;
    this.groups = groups;
    this.random = seeded(seed);
    this.folder = t.testdir({});
    this.url = isOnPostgres ? unsharedPostgres() : `sqlite:${join(this.folder, 'rollcall.db')}`;
  }

  /**
   * New definitions: one life is killed while it builds what they ask, if it passes so many steps of that; the next one is
   * compared at so many instants, and killed in the middle of some step.
   */
  async generation(number: number, instants: number, buildSteps: number): Promise<void> {
    const of = eventsOf(this.seed + number, this.groups);
    this.waiting = [...of];
    if (await this.dieBuilding(number, buildSteps)) this.counts.inBuild += 1;
    // Nothing runs for hours, or for days.
    const downtime = this.any(PAUSES);
    this.now += downtime;
    if (downtime >= 3_600_000) this.counts.down += 1;
    const life = await this.live(number, null);
    for (let instant = 0; instant < instants; instant += 1) {
      this.now += this.any(PAUSES);
      await life.ask({ now: this.now });
      // At every third instant it is time alone that changes anything.
      if (instant % 3 !== 2) await this.feed(life.address, Math.ceil(of.length / (instants + 2)));
      if (this.random() < 0.5) await life.ask({ sync: true });
      if (instant % 3 === 1) {
        await life.ask({ delete: this.any(of).userId ?? 'nobody' });
        this.counts.deleted += 1;
      }
      const said = (await life.ask({ compare: true })) as Compared;
      this.counts.compared += said.compared;
      this.counts.found += said.found;
      this.counts.instants += 1;
      this.differences.push(...said.differences);
    }
    const failpoint = this.any(['live_step', 'live_stepped'] as const);
    await life.ask({ arm: { failpoint, passes: 1 + Math.floor(this.random() * 4) } });
    const left = this.waiting.length;
    for (let batch = 0; batch < MOST_BATCHES && !life.isOver(); batch += 1) {
      this.now += this.any(PAUSES);
      await life.ask({ now: this.now });
      await this.feed(life.address, Math.ceil(left / LAST_BATCHES));
      await life.ask({ settle: true });
    }
    if (life.isOver()) this.counts.killed += 1;
    await life.kill();
  }

  /** Whether it was killed on the way. */
  private async dieBuilding(generation: number, passes: number): Promise<boolean> {
    const life = await this.live(generation, { failpoint: 'live_build', passes });
    await life.ask({ compare: true });
    const isKilled = life.isOver();
    await life.kill();
    return isKilled;
  }

  private async live(generation: number, crash: Crash | null) {
    if (isOnPostgres && this.counts.lives > 0) await this.endLeases();
    this.counts.lives += 1;
    const { folder, url, seed, now } = this;
    // The windows are of up to five days: every second generation has some that are longer than the log.
    const orders: Orders = {
      folder,
      url,
      generation,
      seed,
      origin: START,
      now,
      keep: generation % 2 === 0 ? 6 : 3,
      crash,
    };
    const child = fork(CHILD, [JSON.stringify(orders)], {
      stdio: ['ignore', 2, 2, 'ipc'],
      execArgv: [],
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    this.t.teardown(() => child.kill('SIGKILL'));
    let isOver = false;
    const ended = once(child, 'exit').then(() => {
      isOver = true;
      return null;
    });
    const heard = () => Promise.race([once(child, 'message').then(([said]) => said as Answer), ended]);
    const first = await heard();
    return {
      address: first && 'listening' in first ? first.listening : '',
      isOver: () => isOver,
      /** Null once it is dead. */
      ask: async (asked: Asked): Promise<Answer | null> => {
        if (isOver) return null;
        const answer = heard();
        child.send(asked, () => {});
        return answer;
      },
      kill: async () => {
        child.kill('SIGKILL');
        await ended;
      },
    };
  }

  private async feed(address: string, count: number): Promise<void> {
    const batch = this.waiting.splice(0, count).map((event) => payloadOf(event, this.now));
    if (batch.length === 0 || address === '') return;
    this.counts.events += batch.length;
    const headers = { authorization: `Basic ${btoa('shop:')}`, 'content-type': 'application/json' };
    const request = { method: 'POST', headers, body: JSON.stringify({ batch }) };
    await fetch(`${address}/v1/batch`, request).then(
      (response) => response.arrayBuffer(),
      () => {},
    );
  }

  private any<T>(list: readonly T[]): T {
    return list[Math.floor(this.random() * list.length)] as T;
  }

  /** Those of a process that is dead end by the database's clock: nobody waits for that here. */
  private async endLeases(): Promise<void> {
    const client = new pg.Client(this.url);
    await client.connect();
    await client.query('UPDATE rollcall.lease SET lease_until = 0');
    await client.end();
  }
}
