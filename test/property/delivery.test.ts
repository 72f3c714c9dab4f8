import fc from 'fast-check';
import t, { type Test } from 'tap';
import type { Destination } from '../../src/destination.ts';
import type { Store } from '../../src/store/port.ts';
import { Receiver } from '../deliver/helpers/receiver.ts';
import { destination, message, Rig } from '../deliver/helpers/rig.ts';
import { ManualClock } from '../helpers/clock.ts';
import { type TestDatabase, testDatabase } from '../helpers/database.ts';

/** An endpoint's behaviour at a request: it takes it or not, answers in time or not, or moves to a private address. */
const BEHAVIOURS = ['accept', 'accept late', 'fail', 'drop', 'refuse', 'hang', 'move'] as const;
type Behaviour = (typeof BEHAVIOURS)[number];

/** Steps of the clock, in milliseconds: hours, and as little as drift. */
const STEPS = [1, -1, 5, -5].map((hours) => hours * 3_600_000).concat(40, -40);

const step = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant('change' as const), user: fc.integer({ min: 0, max: 2 }) }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 9_000 }) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('behave' as const), as: fc.constantFrom(...BEHAVIOURS) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('restart' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('crash' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('silence' as const), ms: fc.integer({ min: 1_000, max: 60_000 }) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('replay' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('step' as const), ms: fc.constantFrom(...STEPS) }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('suspend' as const), ms: fc.integer({ min: 1_000, max: 120_000 }) }),
  },
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

/** The endpoint as a model: what it accepted, per user, in the order in which it did. */
class Model {
  behaviour: Behaviour = 'accept';
  readonly accepted = new Map<string, number[]>();
  readonly keys = new Map<number, Set<string>>();

  take(user: string, value: number, key: string): void {
    this.keys.set(value, (this.keys.get(value) ?? new Set()).add(key));
    const isTaken = ['accept', 'accept late', 'move'].includes(this.behaviour);
    if (isTaken) this.accepted.set(user, [...(this.accepted.get(user) ?? []), value]);
  }
}

class World {
  readonly model = new Model();
  readonly latest = new Map<string, number>();
  private readonly database: TestDatabase;
  private readonly store: Store;
  private readonly destinations: readonly Destination[];
  private readonly network = {
    resolve: async () => [{ address: this.model.behaviour === 'move' ? '10.0.0.1' : '127.0.0.1', family: 4 }],
  };
  private rig!: Rig;
  private readonly retired: Rig[] = [];
  private sequence = 0;

  private constructor(database: TestDatabase, store: Store, receiver: Receiver) {
    this.database = database;
    this.store = store;
    this.destinations = [destination(receiver.url.replace('127.0.0.1', 'moving.example'))];
    receiver.answer = (response, { body, headers }) => {
      const { userId, properties } = JSON.parse(body.toString()) as { userId: string; properties: { value: number } };
      const { behaviour } = this.model;
      this.model.take(userId, properties.value, String(headers['idempotency-key']));
      if (behaviour === 'drop') response.destroy();
      else if (behaviour !== 'hang' && behaviour !== 'accept late') {
        // A connection from before its move is still good.
        response.writeHead({ accept: 200, fail: 503, refuse: 400, move: 200 }[behaviour]).end();
      }
    };
  }

  static async create(t: Test, receiver: Receiver, maxQueued: number): Promise<World> {
    const database = await testDatabase(t, new ManualClock(), { maxQueued });
    const world = new World(database, await database.open(), receiver);
    await world.start(t);
    return world;
  }

  async start(t: Test): Promise<void> {
    this.rig = await Rig.start(t, { destinations: this.destinations, database: this.database, network: this.network });
  }

  async perform(t: Test, step: Step): Promise<void> {
    switch (step.do) {
      case 'change':
        return this.change(`u${step.user}`);
      case 'pass':
        return this.rig.pass(step.ms, 3_000);
      case 'behave':
        this.model.behaviour = step.as;
        return;
      case 'silence':
        this.database.clock.stall(step.ms);
        return this.rig.pass(1_000);
      case 'step':
        this.database.clock.jump(step.ms);
        return this.rig.pass(1_000);
      case 'suspend':
        this.database.clock.suspend(step.ms);
        return this.rig.pass(1_000);
      case 'restart':
        await this.rig.stopInTime();
        return this.start(t);
      case 'crash':
        // Its claims are freed as those of a dead process; what it had in flight ends unheard.
        this.retired.push(this.rig);
        this.database.clock.stall(30_000);
        return this.start(t);
      case 'replay': {
        const letters = await this.store.deadLetters({ limit: 100 });
        await this.store.replay(letters.map(({ id }) => ({ id, body: null })));
        this.rig.worker.wake(['crm']);
      }
    }
  }

  /** Lets everything come to its end with an endpoint that works. */
  async finish(): Promise<void> {
    this.model.behaviour = 'accept';
    for (;;) {
      // Messages held out of a full queue come by themselves.
      const letters = (await this.store.deadLetters({ limit: 100 })).filter(({ reason }) => reason !== 'queue_full');
      await this.store.replay(letters.map(({ id }) => ({ id, body: null })));
      this.rig.worker.wake(['crm']);
      const [backlog] = await this.store.backlog();
      if (!backlog || backlog.pending + backlog.dead === 0) break;
      await this.rig.pass(4_000, 4_000);
    }
    for (const rig of [...this.retired, this.rig]) await rig.stopInTime();
  }

  close(): Promise<void> {
    return this.database.close();
  }

  private async change(user: string): Promise<void> {
    this.sequence += 1;
    this.latest.set(user, this.sequence);
    const body = JSON.stringify({ version: 1, type: 'identify', userId: user, properties: { value: this.sequence } });
    const change = message({ type: 'identify', userId: user, body, conflict: `vip:${user}` });
    await this.rig.accept('shop', [change]);
  }
}

t.test('never moves membership backwards, whatever fails, restarts, is replayed or happens to clocks', async (t) => {
  const receiver = await Receiver.start(t);
  await fc.assert(
    // With three users, a queue of one or two is often full.
    fc.asyncProperty(
      fc.array(step, { minLength: 5, maxLength: 40 }),
      fc.constantFrom(1, 2, 100),
      async (steps, maxQueued) => {
        const world = await World.create(t, receiver, maxQueued);
        try {
          for (const each of steps) await world.perform(t, each);
          await world.finish();
        } finally {
          await world.close();
        }
        for (const [user, latest] of world.latest) {
          const accepted = world.model.accepted.get(user) ?? [];
          const isRising = accepted.every((value, place) => place === 0 || value >= (accepted[place - 1] ?? 0));
          if (!isRising) throw new Error(`${user} went backwards: ${accepted}`);
          if (accepted.at(-1) !== latest) throw new Error(`${user} ends at ${accepted.at(-1)}, not at ${latest}`);
        }
        for (const [value, keys] of world.model.keys) {
          if (keys.size > 1) throw new Error(`Change ${value} came under several keys: ${[...keys]}`);
        }
      },
    ),
    { numRuns: 25 },
  );
  t.pass('25 histories');
});
