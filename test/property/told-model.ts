import assert from 'node:assert/strict';
import type { StageRequest } from '../../jobs/engines/port.ts';
import type { Engine, Sync } from '../../jobs/index.ts';
import { formsOf } from '../../jobs/run/change-messages.ts';
import { Regulations } from '../../src/deletion/regulations.ts';
import type { Destination, MembershipMode } from '../../src/destination.ts';
import { type Clock, systemClock } from '../../src/kernel/clock.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import type { Claim, Fence, Store, Verdict } from '../../src/store/port.ts';
import { audience, destination, NO_GUARD, type Rig, trait } from '../jobs/helpers/rig.ts';
import { ReasonOracle } from './told-reasons.ts';
import { Receiver } from './told-receiver.ts';

const USERS = ['a', 'b', 'c', 'd', 'e', 'ü "2"'];
const NAMES = ['crm', 'mail', 'erp'];
/** The form in which each gets changes; that of `crm` changes. */
const FORMS: Readonly<Record<string, MembershipMode>> = { mail: 'both', erp: 'track' };
const SOURCES = ['personas', 'shop'];
const KEYS = ['club', 'circle', 'score'];
/** What a process may meet with: another one, and a full disk. */
const PASSING_CODES = new Set(['run_in_progress', 'unknown_run', 'unknown_audience', 'snapshot_lost', 'store_full']);
const HOUR = 3_600_000;

/** A whole number from 0 to below `most`; the same ones in every run of one seed. */
export type Random = (most: number) => number;

/** The configuration of one audience or trait. */
interface Definition {
  key: string;
  kind: 'audience' | 'trait';
  source: string;
  guarded: boolean;
  paused: boolean;
  /** Traits beside the first, or columns that go with the changes of an audience. */
  columns: number;
  /** Tells definitions apart, and stays over a rename. */
  mark: number;
  /** Its result: the value of each member. */
  rows: Map<string, number>;
}

class Crash extends Error {}

/** Counts of what was done, for the test to tell. */
export interface Counts {
  steps: number;
  settlements: number;
  checked: number;
  crashes: number;
  held: number;
  [event: string]: number;
}

/**
 * Two processes on one store and engine, whose configuration, data and destinations change at random, with a disk that is full
 * at times, a clock that is set back, and receivers that fail, also after they stored. At each settlement every destination that
 * can be reached believes what is so.
 */
export class ToldModel {
  readonly counts: Counts = { steps: 0, settlements: 0, checked: 0, crashes: 0, held: 0 };
  /** Deeds since the last settlement, for the message of a failure. */
  readonly history: string[] = [];
  private readonly rig: Rig;
  private readonly engine: Engine;
  private readonly clock: Clock;
  private readonly random: Random;
  private readonly definitions = new Map<string, Definition>();
  private readonly receivers = new Map(NAMES.map((name) => [name, new Receiver()]));
  private readonly reasons = new ReasonOracle();
  /** Destinations that have skipped past members at some time. */
  private readonly skipped = new Set<string>();
  private readonly regulations: Regulations;
  private time: number;
  private latest: number;
  private marks = 0;

  constructor(rig: Rig, engine: Engine, random: Random) {
    this.rig = rig;
    this.engine = oneAtATime(engine);
    this.clock = { ...rig.clock, sleep: (ms, signal) => this.sleep(ms, signal) };
    this.random = random;
    this.time = rig.time();
    this.latest = this.time;
    this.regulations = deleter(rig, this.process());
    rig.config.destinations = NAMES.map(connected);
    this.define('club', 'audience');
    this.define('score', 'trait');
  }

  /** One thing happens, then processes sync, and some of what waits is posted. */
  async step(): Promise<void> {
    this.counts.steps += 1;
    const events = [
      ...[this.editRows, this.editRows, this.editRows, this.editRows, this.switchDestination, this.switchDestination],
      ...[this.filter, this.filter, this.connect, this.rename, this.redefine, this.drop, this.add],
      ...[this.retire, this.resync, this.forget, this.changeKind, this.changeSource, this.nothing],
      ...[this.replay, this.replay, this.setClockBack, this.skip, this.changeForm, this.comeBack],
    ];
    const event = this.pick(events);
    this.note(event.name);
    await event.call(this);
    this.configure();
    await this.live();
    await this.deliver(true);
    if (this.random(4) === 0) await this.settle();
  }

  /** All that can come to rest does; whoever can be reached is looked at. */
  async settle(): Promise<void> {
    this.counts.settlements += 1;
    this.note('settle');
    for (const definition of this.definitions.values()) definition.paused = false;
    for (const name of NAMES) if (this.random(2) === 0) this.welcome(name);
    this.configure();
    const sync = this.process();
    for (let round = 0; round < 3; round += 1) {
      this.pass(HOUR);
      for (const report of await sync.run([], { renames: true })) await this.letPass(sync, report);
      // A key that is gone from the configuration ends, if nothing else has its name now.
      for (const { key } of await sync.orphans()) await this.must(sync.retire(key));
      await this.deliver(false);
    }
    await this.check();
    this.history.length = 0;
  }

  private async check(): Promise<void> {
    const sources = new Map<string, string | undefined>();
    for (const key of KEYS) {
      // A key is forgotten only once everybody knows.
      const source = this.definitions.get(key)?.source ?? (await this.rig.store.audience(key))?.source;
      sources.set(key, source);
    }
    for (const each of this.rig.config.destinations.filter(isReached)) {
      const { held, byForm } = this.receiver(each.name);
      const wanted = this.expected(each);
      // A destination that is not connected to the source keeps what it was sent.
      const silent = KEYS.filter((key) => !each.sources.includes(sources.get(key) ?? each.sources[0] ?? ''));
      // Columns are known of members only; those of others are the last that were sent of them.
      const isChecked = (fact: string, state: ReadonlyMap<string, unknown>) =>
        !silent.includes(keyOfFact(fact)) &&
        (!isColumn(fact) || (fact in wanted && state.get(this.memberOf(fact)) === true));
      const forms = each.name === 'crm' ? [] : formsOf(each);
      const states = [['all', held] as const, ...forms.map((form) => [form, byForm[form]] as const)];
      for (const [from, state] of states) {
        this.counts.checked += 1;
        const facts = [...state].filter(([, value]) => value !== false && value !== null).toSorted();
        const seen = Object.fromEntries(facts.filter(([fact]) => isChecked(fact, state)));
        // Who skips past members may not know of some, but has nothing that is not so.
        const known = Object.entries(wanted).filter(([fact]) => !this.skipped.has(each.name) || fact in seen);
        assert.deepEqual(seen, Object.fromEntries(known), `${each.name}, from ${from}\n${this.history.join('\n')}`);
      }
    }
  }

  /** The membership that a column goes with. */
  private memberOf(column: string): string {
    const [mark, ...user] = column.split(' ');
    const definition = [...this.definitions.values()].find((each) => columnOf(each.mark) === mark);
    return [definition?.key, ...user].join(' ');
  }

  private expected(each: Destination): Record<string, unknown> {
    const facts: [string, unknown][] = [];
    for (const { key, kind, source, rows, columns, mark } of this.definitions.values()) {
      if (!each.sources.includes(source) || !(each.wants?.audiences?.includes(key) ?? true)) continue;
      for (const [user, value] of rows) {
        if (kind === 'audience') facts.push([`${key} ${user}`, true]);
        if (kind === 'audience' && columns > 0) facts.push([`${columnOf(mark)} ${user}`, value]);
        if (kind === 'trait') for (const name of traitsOf(key, columns)) facts.push([`${name} ${user}`, value]);
      }
    }
    return Object.fromEntries(facts.toSorted());
  }

  // The possible steps.

  private editRows(): void {
    const definition = this.someDefinition();
    if (!definition) return;
    definition.rows = new Map(USERS.filter(() => this.random(2) === 0).map((user) => [user, this.random(3)]));
  }

  private switchDestination(): void {
    const name = this.pick(NAMES);
    this.changeDestination(name, (each) => ({ ...each, enabled: !each.enabled }));
    // Who is gone from the file is away too.
    if (this.random(4) !== 0) return;
    const { destinations } = this.rig.config;
    this.rig.config.destinations = destinations.some((each) => each.name === name)
      ? destinations.filter((each) => each.name !== name)
      : [...destinations, connected(name)];
  }

  /** It is back, as it was. */
  private welcome(name: string): void {
    const { config } = this.rig;
    const known = config.destinations.find((each) => each.name === name) ?? connected(name);
    const { wants, ...rest } = known;
    const back = { ...rest, ...(wants?.types ? {} : { wants: wants ?? {} }), enabled: true };
    config.destinations = [...config.destinations.filter((each) => each.name !== name), back];
  }

  /** A destination misses a run, and a person acts before its next one. */
  private async comeBack(): Promise<void> {
    const name = this.pick(NAMES);
    this.changeDestination(name, (each) => ({ ...each, enabled: false }));
    this.editRows();
    this.configure();
    await this.live();
    this.welcome(name);
    await this.pick([this.resync, this.replay]).call(this);
    this.editRows();
  }

  private skip(): void {
    this.skipped.add('erp');
    this.changeDestination('erp', (each) => ({ ...each, backfill: this.pick(['send', 'skip']) }));
  }

  private changeForm(): void {
    this.changeDestination('crm', (each) => ({ ...each, membership: this.pick(['identify', 'track', 'both']) }));
  }

  private connect(): void {
    const sources = this.pick([SOURCES, SOURCES, ['personas'], ['shop']]);
    this.changeDestination(this.pick(NAMES), (each) => ({ ...each, sources }));
  }

  private filter(): void {
    const wants = this.pick<Destination['wants'][]>([
      [undefined],
      [undefined],
      [{ audiences: [] }],
      [{ audiences: KEYS.filter(() => this.random(2) === 0) }],
      [{ types: ['track'] }],
      [{ types: ['identify'], audiences: ['club'] }],
    ])[0];
    this.changeDestination(this.pick(NAMES), ({ wants: _, ...each }) => (wants ? { ...each, wants } : each));
  }

  private rename(): void {
    const definition = this.definitions.get('club') ?? this.definitions.get('circle');
    const name = definition?.key === 'club' ? 'circle' : 'club';
    if (!definition || this.definitions.has(name)) return;
    this.definitions.delete(definition.key);
    this.definitions.set(name, { ...definition, key: name });
  }

  private redefine(): void {
    const definition = this.someDefinition();
    if (!definition) return;
    definition.columns = this.random(2);
    definition.guarded = this.random(2) === 0;
    definition.paused = this.random(6) === 0;
    if (this.random(2) === 0) definition.mark = ++this.marks;
  }

  private drop(): void {
    const definition = this.someDefinition();
    if (!definition) return;
    this.definitions.delete(definition.key);
  }

  private add(): void {
    const free = KEYS.filter((key) => !this.definitions.has(key));
    if (free.length > 0) this.define(this.pick(free), this.pick(['audience', 'trait']));
  }

  private changeKind(): void {
    const definition = this.someDefinition();
    if (definition) definition.kind = definition.kind === 'audience' ? 'trait' : 'audience';
  }

  private changeSource(): void {
    const definition = this.someDefinition();
    if (definition) definition.source = this.pick(SOURCES);
  }

  private async retire(): Promise<void> {
    const key = this.pick(KEYS);
    await this.mortal(async (sync) => {
      await sync.retire(key);
    });
  }

  private async resync(): Promise<void> {
    this.configure();
    const definition = this.someDefinition();
    if (definition) await this.mortal((sync) => sync.resync(definition.key));
  }

  private async forget(): Promise<void> {
    const user = this.pick(USERS);
    if (this.random(2) === 0) for (const { rows } of this.definitions.values()) rows.delete(user);
    this.configure();
    const id = await this.regulations.file({ type: 'DELETE_ONLY', sources: null, userIds: [user] });
    // Meanwhile a process may sync.
    if (this.random(2) === 0) await this.mortal((sync) => sync.run([], { renames: true }));
    for (let status: string | undefined; status !== 'FINISHED'; ) {
      status = (await this.regulations.find(id))?.status;
      assert.match(String(status), /INITIALIZED|RUNNING|FINISHED/);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  }

  /** A person sends some of what died again, whatever became of the audience and of the destination meanwhile. */
  private async replay(): Promise<void> {
    const { store } = this.rig;
    const letters = (await store.deadLetters({ limit: 1_000 })).filter(() => this.random(2) === 0);
    const bodies = await this.process().currentBodies(letters);
    const replays = letters.flatMap(({ id }, place) => {
      const body = bodies[place] ?? null;
      return body instanceof RollcallError ? [] : [{ id, body }];
    });
    this.counts['replayed'] = (this.counts['replayed'] ?? 0) + (await store.replay(replays));
  }

  /** All that was done lately lies in the future now. */
  private setClockBack(): void {
    this.counts['setBack'] = (this.counts['setBack'] ?? 0) + 1;
    this.pass(-HOUR * (1 + this.random(5)));
  }

  private nothing(): void {}

  // How it is carried out.

  /** A sync of one process or two at once; either may crash, and destinations may change on the way. */
  private async live(): Promise<void> {
    const once = () => this.mortal((sync) => this.runAndDecide(sync));
    const before = this.rig.config.destinations;
    const isTorn = this.random(6) === 0;
    if (isTorn) {
      this.afterAccepts = this.random(4);
      this.torn = () => {
        const name = this.pick(NAMES);
        this.changeDestination(name, (each) => ({ ...each, enabled: !each.enabled }));
        this.noteReach();
      };
    }
    if (this.random(4) === 0) await Promise.all([once(), once()]);
    else await once();
    this.torn = null;
    if (isTorn) this.rig.config.destinations = before;
  }

  private torn: (() => void) | null = null;
  private afterAccepts = 0;

  private async runAndDecide(sync: Sync): Promise<void> {
    const keys = this.random(5) === 0 ? [this.pick([...this.definitions.keys()])].flatMap((key) => key ?? []) : [];
    const reports = await sync.run(keys, { renames: this.random(2) === 0 });
    for (const { runs } of reports) {
      for (const { id, state } of runs) {
        if (state !== 'held') continue;
        this.counts.held += 1;
        if (this.random(3) === 0) continue;
        if (this.random(2) === 0) await sync.approve(id);
        else await sync.reject(id);
      }
    }
  }

  /** Has a process do something that may end anywhere. */
  private async mortal(work: (sync: Sync) => Promise<unknown>): Promise<void> {
    this.pass(HOUR);
    const mayDie = this.random(3) === 0;
    let left = mayDie ? this.random(150) : Number.POSITIVE_INFINITY;
    const die = () => {
      left -= 1;
      if (left < 0) throw new Crash('crashed');
    };
    const fill = this.fullDisk();
    const fences: Fence[] = [];
    const wrap = <T extends object>(subject: T, fail = () => {}): T =>
      new Proxy(subject, {
        get(target, name) {
          const member = Reflect.get(target, name);
          if (typeof member !== 'function') return member;
          return async (...parameters: unknown[]) => {
            die();
            fail();
            const result = await member.apply(target, parameters);
            if (name === 'takeLease' && result !== null) fences.push(result);
            die();
            return result;
          };
        },
      });
    const sync = this.rig.another({
      store: wrap<Store>(this.rig.store, fill),
      accept: wrap({ accept: this.accept }, fill).accept,
      openEngine: async () => wrap(this.open()),
      clock: this.clock,
    });
    try {
      await work(sync);
    } catch (error) {
      const isExpected = error instanceof RollcallError && PASSING_CODES.has(error.code);
      if (!(error instanceof Crash) && !isExpected) throw error;
    }
    if (left < 0) {
      this.counts.crashes += 1;
      // Its leases end.
      this.pass(HOUR);
    }
    // A database has a clock of its own.
    for (const fence of fences) await this.rig.store.releaseLease(fence);
  }

  /** The disk of the store may be full for a while; called before each of its verbs. */
  private fullDisk(): () => void {
    if (this.random(5) > 0) return () => {};
    this.counts['full'] = (this.counts['full'] ?? 0) + 1;
    let [before, during] = [this.random(100), 1 + this.random(20)];
    return () => {
      before -= 1;
      if (before >= 0) return;
      during -= 1;
      if (during >= 0) throw new RollcallError('store_full', 'The disk is full.');
    };
  }

  private readonly accept: Rig['accept'] = async (...parameters) => {
    const result = await this.rig.accept(...parameters);
    if (this.torn && this.afterAccepts-- === 0) this.torn();
    return result;
  };

  /** Two rows at a time, so that a crash can come between two batches of a plan. */
  private open(): Engine {
    const { engine } = this;
    return new Proxy(engine, {
      get: (target, name) => {
        if (name === 'stage') return (request: StageRequest) => this.stage(request);
        if (name === 'changes') return (plan: string, after: number) => engine.changes(plan, after, 2);
        if (name === 'commit') return (plan: string) => engine.commit(plan).then(() => this.reasons.commit(plan));
        return name === 'close' ? async () => {} : Reflect.get(target, name);
      },
    });
  }

  private async stage(request: StageRequest) {
    const { key, sql } = request;
    const before = await this.engine.lookup(key, USERS);
    const { rows = new Map<string, number>(), ...definition } = this.definitionOf(sql) ?? {};
    const values = new Map([...rows].map(([user, value]) => [user, columnsFor(request, definition, value)]));
    this.reasons.staged(request, before, values, (other) => this.definitions.has(other));
    return this.engine.stage({ ...request, sql: this.withRows(sql) });
  }

  private definitionOf(sql: string): Definition | undefined {
    const mark = Number(/rows_(\d+)/.exec(sql)?.[1]);
    return [...this.definitions.values()].find((each) => each.mark === mark);
  }

  /** Data changes without the definition. */
  private withRows(sql: string): string {
    return sql.replace(/rows_(\d+)/, (name) => {
      const { rows } = this.definitionOf(sql) ?? {};
      const values = [...(rows ?? [])].map(([user, value]) => `('${user}', ${value})`).join(', ') || '(null, 0)';
      return `(values ${values}) as ${name}(user_id, v)`;
    });
  }

  /** A process that lives on. */
  private process(): Sync {
    return this.rig.another({ openEngine: async () => this.open(), clock: this.clock });
  }

  private async letPass(sync: Sync, report: Awaited<ReturnType<Sync['retire']>>): Promise<void> {
    assert.equal(report.error, null, `${report.key}: ${report.error?.message}\n${this.history.join('\n')}`);
    for (const { id, state } of report.runs) if (state === 'held') await this.must(sync.approve(id));
  }

  private async must(work: ReturnType<Sync['retire']>): Promise<void> {
    const { error } = await work;
    assert.equal(error, null, `${error?.message}\n${this.history.join('\n')}`);
  }

  /** Posts what waits for those who take anything; some answers are bad, also of those who have stored it. */
  private async deliver(isBad: boolean): Promise<void> {
    const { store, config } = this.rig;
    const owner = await store.join(60_000);
    for (const { name } of config.destinations.filter(({ enabled }) => enabled)) {
      for (;;) {
        const claims = (await store.claim(owner, [{ destination: name, limit: 7, order: 'usual' }])).claims.flat();
        if (claims.length === 0) break;
        const settlements = claims.map((claim) => ({
          claim,
          verdict: this.answer(name, claim, isBad),
          attempts: [],
        }));
        await store.settle(owner, settlements);
        // Some of it waits until the next time.
        if (isBad && this.random(5) === 0) break;
      }
    }
    await store.leave(owner);
  }

  private answer(name: string, claim: Claim, isBad: boolean): Verdict {
    const luck = isBad && claim.type !== 'delete' ? this.random(8) : 7;
    const isStored = luck > 3 || this.random(2) === 0;
    if (isStored) this.learn(name, claim);
    if (luck < 2) {
      if (claim.type !== 'delete') this.reasons.die(name, claim.body);
      return { kind: 'dead', reason: 'refused', status: 400, firstAt: null };
    }
    if (luck < 4 && claim.tries < 3) return { kind: 'retry', dueAt: this.time, firstAt: this.time, marks: {} };
    if (!isStored) this.learn(name, claim);
    return { kind: 'delivered' };
  }

  private learn(name: string, { type, userId, body }: Claim): void {
    if (type === 'delete') {
      this.receiver(name).forget(String(userId));
      return;
    }
    const told = this.receiver(name).learn(body);
    assert.ok(Date.parse(told.changedAt) <= this.latest, body);
    this.reasons.check(name, told);
    this.counts[told.reason] = (this.counts[told.reason] ?? 0) + 1;
  }

  private receiver(name: string): Receiver {
    return this.receivers.get(name) as Receiver;
  }

  private configure(): void {
    const { config } = this.rig;
    const of = (kind: Definition['kind']) => [...this.definitions.values()].filter((each) => each.kind === kind);
    config.audiences = of('audience').map((each) => audience(each.key, sqlOf(each), settingsOf(each)));
    config.traits = of('trait').map((each) => trait(each.key, sqlOf(each), settingsOf(each)));
    this.noteReach();
  }

  private noteReach(): void {
    for (const name of NAMES) {
      const each = this.rig.config.destinations.find((one) => one.name === name);
      for (const key of KEYS) {
        const source = this.definitions.get(key)?.source;
        if (each && !(each.wants?.audiences?.includes(key) ?? true)) this.reasons.noteReach(name, key, 'unwanted');
        const isAway = !each || !isReached(each) || (source !== undefined && !each.sources.includes(source));
        if (isAway) this.reasons.noteReach(name, key, 'away');
      }
    }
  }

  private define(key: string, kind: Definition['kind']): void {
    const rows = new Map(USERS.filter(() => this.random(2) === 0).map((user) => [user, this.random(3)]));
    const rest = { guarded: this.random(3) === 0, paused: false, columns: this.random(2), mark: ++this.marks, rows };
    this.definitions.set(key, { key, kind, source: this.pick(SOURCES), ...rest });
  }

  private changeDestination(name: string, change: (each: Destination) => Destination): void {
    const { config } = this.rig;
    config.destinations = config.destinations.map((each) => (each.name === name ? change(each) : each));
  }

  private someDefinition(): Definition | undefined {
    return this.pick([...this.definitions.values()]);
  }

  private pick<T>(of: readonly T[]): T {
    return of[this.random(of.length)] as T;
  }

  /** Sleepers take no time of ours: theirs goes by at once, with the leases of the dead that they wait for. */
  private async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    await this.rig.clock.sleep(Math.min(ms, 5), signal);
    this.pass(ms);
  }

  private pass(ms: number): void {
    this.time += ms;
    this.latest = Math.max(this.latest, this.time);
    this.rig.setTime(new Date(this.time).toISOString());
  }

  private note(text: string): void {
    const destinations = this.rig.config.destinations.map(({ name, enabled, sources, wants }) =>
      [name, enabled ? 'on' : 'off', sources.join('+'), wants ? JSON.stringify(wants) : ''].join(' ').trim(),
    );
    this.history.push(`${this.counts.steps} ${text}: ${destinations.join('; ')}`);
  }
}

/** The processes share a session, which takes one verb at a time. */
function oneAtATime(engine: Engine): Engine {
  let last: Promise<unknown> = Promise.resolve();
  return new Proxy(engine, {
    get(target, name) {
      const member = Reflect.get(target, name);
      if (typeof member !== 'function') return member;
      return (...parameters: unknown[]) => {
        const done = last.then(() => member.apply(target, parameters));
        last = done.catch(() => {});
        return done;
      };
    },
  });
}

/** A single column tells the trait itself. */
const traitsOf = (key: string, columns: number) =>
  columns === 0 ? [key] : Array.from({ length: columns + 1 }, (_, n) => `${key}_${n}`);

const keyOfFact = (fact: string) => fact.slice(0, fact.indexOf(' ')).replace(/_\d$/, '');

/** A column of an audience, which stays over a rename. */
const columnOf = (mark: number) => `c${mark}`;
const isColumn = (fact: string) => /^c\d/.test(fact);

const connected = (name: string): Destination => {
  const membership = FORMS[name];
  return { ...destination(name, SOURCES), ...(membership && { membership }) };
};

/** `types` filters identify calls alone. */
const isReached = ({ enabled, wants, membership = 'identify' }: Destination) =>
  enabled && (membership !== 'identify' || (wants?.types?.includes('identify') ?? true));

function columnsFor(
  { kind, key, with: columns }: StageRequest,
  { columns: more = 0 }: Partial<Definition>,
  value: number,
): Record<string, number> | null {
  const names = kind === 'trait' ? traitsOf(key, more) : (columns?.names ?? []);
  return names.length === 0 ? null : Object.fromEntries(names.map((name) => [name, value]));
}

function sqlOf({ key, kind, columns, mark }: Definition): string {
  const from = `from rows_${mark}`;
  if (kind === 'audience') return `select user_id, v as ${columnOf(mark)} ${from}`;
  return `select user_id, ${traitsOf(key, columns)
    .map((name) => `v as ${name}`)
    .join(', ')} ${from}`;
}

function settingsOf({ kind, source, guarded, paused, columns, mark }: Definition) {
  const rest = { source, paused, guard: { ...NO_GUARD, maxExits: guarded ? { count: 1 } : null } };
  return kind === 'trait' || columns === 0 ? rest : { ...rest, with: { [columnOf(mark)]: {} }, sendsColumns: true };
}

/** A service in another process, which carries deletion requests out. */
function deleter(rig: Rig, sync: Sync): Regulations {
  return new Regulations({
    store: rig.store,
    accept: async (source, messages, { to = [] }) => {
      const routed = messages.map((each) => ({ ...each, source, destinations: to, lane: 'deletion', conflict: null }));
      return rig.store.accept({ messages: routed as never, step: null });
    },
    sources: () => SOURCES.map((id) => ({ id, writeKey: '', enabled: true })),
    destinations: () => rig.config.destinations,
    elsewhere: async () => [],
    toldByEngines: (users, sources) => sync.told(users, sources),
    forgetInEngines: (ids, sources) => sync.forget(ids, sources, () => rig.store.events.names(ids)),
    clock: {
      ...systemClock,
      now: () => rig.time(),
      after: (_ms, callback) => {
        const timer = setTimeout(callback, 1);
        return () => clearTimeout(timer);
      },
    },
    log: { error: (details, message) => assert.fail(`${message} ${JSON.stringify(details)}`) },
  });
}
