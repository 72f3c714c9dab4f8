import { hash } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { envelope, signed, signStandard, webhook } from '../../../receivers/testing.ts';
import { randomNumbers } from '../../crash/random.ts';
import { membership } from '../helpers/samples.ts';
import type { Fleet } from './fleet.ts';
import { FORMER } from './former.ts';
import type { Tables } from './tables.ts';

/** Audiences whose handlers promise that their table never goes backwards. */
const AUDIENCES = ['transaction', 'conditional'];
const USERS = 3;
/** Steps from one disturbance to the next. */
const KILL_EVERY = 25;
const STOP_EVERY = 40;
/** Requests that the sender has on their way at once. */
const MOST_IN_FLIGHT = 48;
/** So many attempts of one message mean that it is never taken. */
const MOST_ATTEMPTS = 300;
/** Past messages that may be sent again. */
const REMEMBERED = 60;

export interface ModelOptions {
  readonly fleet: Fleet;
  readonly tables: Tables;
  readonly secret: string;
  readonly lease: number;
  readonly seed: number;
}

/** The deeds of a run, to see that it was worth something. */
export interface Counts {
  changes: number;
  tracks: number;
  batches: number;
  repeats: number;
  kills: number;
  stops: number;
  attempts: number;
  settlements: number;
}

/**
 * Sends random changes to a fleet of apps, as a sender that retries until it hears 200 and keeps no order at all, and
 * compares the apps' tables with the last change sent whenever all is delivered.
 */
export class Model {
  readonly counts: Counts = {
    changes: 0,
    tracks: 0,
    batches: 0,
    repeats: 0,
    kills: 0,
    stops: 0,
    attempts: 0,
    settlements: 0,
  };
  private readonly options: ModelOptions;
  private readonly random: (most: number) => number;
  private readonly inFlight = new Set<Promise<void>>();
  private readonly disturbances = new Set<Promise<void>>();
  private readonly disturbed = new Set<number>();
  private readonly sent: string[] = [];
  private readonly members = new Map<string, { audience: string; user: string; is_member: number; sequence: number }>();
  private readonly counted = new Map<string, number>();
  private sequence = 0;
  private steps = 0;

  constructor(options: ModelOptions) {
    this.options = options;
    this.random = randomNumbers(options.seed);
  }

  /** One random thing. */
  async step(): Promise<void> {
    this.steps += 1;
    const dice = this.random(100);
    if (this.steps % KILL_EVERY === 0) this.kill();
    else if (this.steps % STOP_EVERY === 0) this.stop();
    else if (dice <= 55) this.send(this.change());
    else if (dice <= 70) this.send(this.track());
    else if (dice <= 82) this.repeat();
    else if (dice <= 93) this.send(this.batch());
    else await this.settle();
    while (this.inFlight.size >= MOST_IN_FLIGHT) await Promise.race(this.inFlight);
  }

  /** Waits until all is delivered, and compares. */
  async settle(): Promise<void> {
    while (this.inFlight.size > 0) await Promise.all(this.inFlight);
    await Promise.all(this.disturbances);
    this.counts.settlements += 1;
    const { rows } = this.options.tables;
    const members = await rows('select audience, user_id, is_member, sequence from member order by audience, user_id');
    const counted = await rows('select user_id, count from counted order by user_id');
    const found = [
      ...members.map((row) => `${row['audience']} ${row['user_id']}: ${row['is_member']} by ${row['sequence']}`),
      ...counted.map((row) => `counted ${row['user_id']}: ${row['count']}`),
    ].toSorted();
    const expected = [
      ...[...this.members.values()].map((row) => `${row.audience} ${row.user}: ${row.is_member} by ${row.sequence}`),
      ...[...this.counted].map(([user, count]) => `counted ${user}: ${count}`),
    ].toSorted();
    if (isDeepStrictEqual(found, expected)) return;
    const wrong = expected.filter((line) => !found.includes(line)).map((line) => `expected ${line}`);
    const instead = found.filter((line) => !expected.includes(line)).map((line) => `found ${line}`);
    throw new Error(['the tables are not what was sent last:', ...wrong, ...instead].join('\n'));
  }

  private user(): string {
    return `u${this.random(USERS)}`;
  }

  private change(): string {
    const audience = AUDIENCES[this.random(AUDIENCES.length) - 1] as string;
    const user = this.user();
    const isMember = this.random(2) === 1;
    this.sequence += 1;
    this.counts.changes += 1;
    const row = { audience, user, is_member: Number(isMember), sequence: this.sequence };
    this.members.set(`${audience} ${user}`, row);
    return membership(audience, user, isMember, this.sequence);
  }

  private track(): string {
    const userId = this.user();
    this.counts.tracks += 1;
    this.counted.set(userId, (this.counted.get(userId) ?? 0) + 1);
    return JSON.stringify(webhook('track', { userId }));
  }

  private batch(): string {
    this.counts.batches += 1;
    const size = 1 + this.random(12);
    return envelope(Array.from({ length: size }, () => (this.random(3) === 1 ? this.track() : this.change())));
  }

  private repeat(): void {
    if (this.sent.length === 0) return;
    this.counts.repeats += 1;
    this.deliver(this.sent[this.random(this.sent.length) - 1] as string);
  }

  private send(body: string): void {
    this.sent.push(body);
    if (this.sent.length > REMEMBERED) this.sent.shift();
    this.deliver(body);
  }

  /** Posts until somebody has handled all of it. */
  private deliver(body: string): void {
    // Drawn at once: what a seed generates does not hang on how fast the apps are.
    const draws = Array.from({ length: 8 }, () => [this.random(1000), this.random(60), this.random(10)] as const);
    const work = (async () => {
      for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt += 1) {
        // After some attempts all goes well, so that a run ends.
        const [place, delay, dice] = draws[attempt] ?? [attempt, 0, 0];
        const failure = attempt < 4 && dice === 1 ? '&fail=1' : '';
        if (await this.attempt(body, place, `?delay=${attempt < 4 ? delay * 4 : 0}${failure}`)) return;
        await wait(20 * Math.min(attempt + 1, 10));
      }
      throw new Error(`nobody takes ${body}`);
    })();
    this.inFlight.add(work);
    void work.finally(() => this.inFlight.delete(work)).catch(() => {});
  }

  private async attempt(body: string, place: number, query: string): Promise<boolean> {
    const { fleet, secret, lease } = this.options;
    const { url } = fleet.apps[place % fleet.apps.length] as { url: string };
    this.counts.attempts += 1;
    try {
      const given = signed(body, secret);
      const standard = signStandard(body, [secret, FORMER], { id: hash('sha256', body), at: Date.now() });
      const headers = { ...given.headers, ...standard };
      const signal = AbortSignal.timeout(lease * 2);
      const response = await fetch(url + query, { method: 'POST', headers, body: given.body, signal });
      const { rejected = [] } = (await response.json()) as { rejected?: unknown[] };
      if (response.status >= 400 && response.status < 500) throw new TypeError(`answered ${response.status}`);
      return response.status === 200 && rejected.length === 0;
    } catch (error) {
      // An app that was killed or stopped does not answer.
      if (error instanceof TypeError && error.message.startsWith('answered')) throw error;
      return false;
    }
  }

  /** One that may be disturbed: on a slow machine the one of before may not be back. */
  private undisturbed(): number | undefined {
    const first = this.random(3) - 1;
    return [first, (first + 1) % 3, (first + 2) % 3].find((place) => !this.disturbed.has(place));
  }

  /** Kills an app while its handlers run. */
  private kill(): void {
    const place = this.undisturbed();
    if (place === undefined) return;
    this.counts.kills += 1;
    this.disturb(place, () => this.options.fleet.replace(place));
  }

  /** Stops an app for longer than its leases, as a laptop's lid or a busy hypervisor does. */
  private stop(): void {
    const place = this.undisturbed();
    if (place === undefined) return;
    this.counts.stops += 1;
    const { fleet, lease } = this.options;
    this.disturb(place, async () => {
      const goOn = fleet.suspend(place);
      await wait(lease * 2);
      goOn();
    });
  }

  private disturb(place: number, work: () => Promise<void>): void {
    this.disturbed.add(place);
    const done = work().finally(() => {
      this.disturbed.delete(place);
      this.disturbances.delete(done);
    });
    this.disturbances.add(done);
  }
}
