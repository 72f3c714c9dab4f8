import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import type { Claim, Store, Verdict } from '../../src/store/port.ts';
import type { Cases } from './store.ts';
import { DELIVERED, type Fixture, message, REFUSED, RELEASE, retryAt, START, settle } from './store-fixture.ts';

const TTL = 20_000;
/** So few that queues are often full. */
const MAX_QUEUED = 5;
const KEYS = ['k1', 'k2', 'k3'] as const;

type Step =
  | { readonly do: 'accept'; readonly process: 0 | 1; readonly keys: readonly (string | null)[] }
  | { readonly do: 'claim'; readonly process: 0 | 1; readonly limit: number }
  | { readonly do: 'settle'; readonly process: 0 | 1; readonly verdict: Verdict; readonly share: number }
  | { readonly do: 'requeue'; readonly process: 0 | 1; readonly limit: number }
  | { readonly do: 'replay'; readonly process: 0 | 1 }
  | { readonly do: 'leave'; readonly process: 0 | 1 }
  | { readonly do: 'crash' };

const process = fc.constantFrom(0 as const, 1 as const);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('accept' as const),
      process,
      keys: fc.array(fc.constantFrom(null, ...KEYS), { maxLength: 5 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('claim' as const), process, limit: fc.integer({ min: 1, max: 6 }) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('settle' as const),
      process,
      verdict: fc.constantFrom(DELIVERED, REFUSED, RELEASE, retryAt(START)),
      share: fc.double({ min: 0, max: 1, noNaN: true }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('requeue' as const), process, limit: fc.integer({ min: 1, max: 6 }) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('replay' as const), process }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('leave' as const), process }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('crash' as const) }) },
);

interface Slot {
  claimed: string | null;
  /** Ready, waiting for what is claimed, or held out of a full queue. */
  next: string | null;
}

/** Expected state: per conflict key (a plain message has one of its own) the delivery in flight and the one that comes next. */
class Model {
  readonly slots = new Map<string, Slot>();
  readonly dead = new Map<string, string>();
  readonly keyOf = new Map<string, string>();
  readonly tried = new Set<string>();

  accept(key: string, body: string): void {
    this.keyOf.set(body, key);
    this.dead.delete(key);
    this.slot(key).next = body;
  }

  /** Says what is wrong with this claim; null if nothing is. */
  claim(body: string): string | null {
    const slot = this.slot(this.keyOf.get(body) ?? '');
    if (slot.claimed !== null) return `${body} was handed out while ${slot.claimed} is in flight`;
    if (slot.next !== body) return `${body} was handed out, but ${slot.next} is next`;
    Object.assign(slot, { claimed: body, next: null });
    return null;
  }

  settle(body: string, kind: Verdict['kind']): void {
    const key = this.keyOf.get(body) ?? '';
    const slot = this.slot(key);
    slot.claimed = null;
    if (kind === 'retry') this.tried.add(body);
    if (slot.next !== null) return;
    if (kind === 'retry' || kind === 'release') slot.next = body;
    if (kind === 'dead') this.dead.set(key, body);
  }

  replay(): void {
    for (const [key, body] of this.dead) {
      this.slot(key).next = body;
      this.tried.delete(body);
    }
    this.dead.clear();
  }

  /** All that was accepted and is neither delivered nor dead for good. */
  get pending(): readonly string[] {
    return [...this.slots.values()].flatMap(({ claimed, next }) => [claimed, next].filter((body) => body !== null));
  }

  private slot(key: string): Slot {
    const slot = this.slots.get(key) ?? { claimed: null, next: null };
    this.slots.set(key, slot);
    return slot;
  }
}

/** Two processes on one database, a destination of their own, and the model beside them. */
class Play {
  private readonly stores: readonly Store[];
  private readonly fixture: Fixture;
  private readonly destination: string;
  private readonly model = new Model();
  private owners: number[] = [];
  private held: Claim[][] = [[], []];
  private count = 0;
  /** Deliveries that people queued, full or not. */
  private replayed = 0;

  constructor(stores: readonly Store[], fixture: Fixture, destination: string) {
    this.stores = stores;
    this.fixture = fixture;
    this.destination = destination;
  }

  async run(steps: readonly Step[]): Promise<void> {
    await this.join();
    for (const each of steps) await this.take(each);
    await this.take({ do: 'crash' });
    for (let turns = 0; this.model.pending.length > 0; turns += 1) {
      if (turns > 100) throw new Error(`${this.model.pending} were accepted and never handed out`);
      await this.take({ do: 'requeue', process: 1, limit: 50 });
      await this.take({ do: 'claim', process: 0, limit: 50 });
      await this.take({ do: 'settle', process: 0, verdict: DELIVERED, share: 1 });
    }
    await Promise.all(this.owners.map((owner, index) => this.store(index).leave(owner)));
  }

  private async take(each: Step): Promise<void> {
    if (each.do === 'accept') await this.accept(each.process, each.keys);
    else if (each.do === 'claim') await this.claim(each.process, each.limit);
    else if (each.do === 'settle') await this.settle(each.process, each.verdict, each.share);
    else if (each.do === 'requeue') await this.store(each.process).requeue(this.destination, each.limit);
    else if (each.do === 'replay') await this.replay(each.process);
    else if (each.do === 'leave') await this.leave(each.process);
    else await this.crash();
    await this.compare();
  }

  private async accept(index: number, keys: readonly (string | null)[]): Promise<void> {
    const batch = keys.map((conflict) => {
      this.count += 1;
      const body = `"${this.count}"`;
      this.model.accept(conflict ?? body, body);
      return message({ conflict, body, destinations: [this.destination] });
    });
    await this.store(index).accept({ messages: batch, step: null });
  }

  private async claim(index: number, limit: number): Promise<void> {
    const owner = this.owners[index] ?? 0;
    const { claims } = await this.store(index).claim(owner, [{ destination: this.destination, limit, order: 'usual' }]);
    for (const claim of claims[0] ?? []) {
      const wrong = this.model.claim(claim.body);
      if (wrong) throw new Error(wrong);
      this.held[index]?.push(claim);
    }
  }

  private async settle(index: number, verdict: Verdict, share: number): Promise<void> {
    const held = this.held[index] ?? [];
    const some = held.splice(0, Math.ceil(held.length * share));
    for (const { body } of some) this.model.settle(body, verdict.kind);
    await settle(this.store(index), this.owners[index] ?? 0, some, verdict);
  }

  /** Of all that is dead for good; what is held out comes by itself. */
  private async replay(index: number): Promise<void> {
    const letters = await this.store(index).deadLetters({
      destination: this.destination,
      reason: 'refused',
      limit: 100,
    });
    this.model.replay();
    this.replayed += letters.length;
    await this.store(index).replay(letters.map(({ id }) => ({ id, body: null })));
  }

  private async leave(index: number): Promise<void> {
    await this.store(index).leave(this.owners[index] ?? 0);
    for (const { body } of this.held[index]?.splice(0) ?? []) this.model.settle(body, 'release');
    this.owners[index] = await this.store(index).join(TTL);
  }

  /** Both fall silent for longer than their leases, and go on as if nothing had been: too late for their verdicts. */
  private async crash(): Promise<void> {
    const late = this.held.map((held) => held.splice(0));
    const before = [...this.owners];
    await this.fixture.advance(TTL + 1);
    await this.store(1).rescue();
    for (const { body } of late.flat()) this.model.settle(body, 'release');
    await this.join();
    for (const [index, claims] of late.entries())
      await settle(this.store(index), before[index] ?? 0, claims, DELIVERED);
  }

  private async join(): Promise<void> {
    this.owners = await Promise.all(this.stores.map((store) => store.join(TTL)));
  }

  private async compare(): Promise<void> {
    const all = await this.store(0).backlog();
    const none = { pending: 0, dead: 0, queued: 0, heldOut: 0 };
    const { pending, dead, queued, heldOut } = all.find(({ destination }) => destination === this.destination) ?? none;
    const is = { pending: pending + heldOut, dead: dead - heldOut, untried: queued + heldOut };
    const bodies = this.model.pending;
    const untried = bodies.filter((body) => !this.model.tried.has(body)).length;
    const should = { pending: bodies.length, dead: this.model.dead.size, untried };
    if (!isDeepStrictEqual(is, should)) {
      throw new Error(`the backlog says ${JSON.stringify(is)}, but it is ${JSON.stringify(should)}`);
    }
    if (queued > MAX_QUEUED + this.replayed) throw new Error(`${queued} are queued`);
  }

  private store(index: number): Store {
    return this.stores[index] as Store;
  }
}

export const modelCases: Cases = {
  'loses nothing, posts no key twice at once, and keeps counters right, whatever two processes do': async (
    t,
    _store,
    fixture,
  ) => {
    const stores = [await fixture.open({ maxQueued: MAX_QUEUED }), await fixture.open({ maxQueued: MAX_QUEUED })];
    let plays = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
        plays += 1;
        await new Play(stores, fixture, `d${plays}`).run(steps);
      }),
      { numRuns: 25 },
    );
    t.pass(`${plays} plays`);
  },
};
