import assert from 'node:assert/strict';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { openDuckdb } from '../../jobs/engines/duckdb/duckdb.ts';
import { openPostgres } from '../../jobs/engines/postgres/postgres.ts';
import type { Engine } from '../../jobs/index.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import type { Claim, Store, Verdict } from '../../src/store/port.ts';
import { startFastPostgres } from '../helpers/postgres.ts';
import { audience, createRig, destination, NO_GUARD, type Rig, trait } from '../jobs/helpers/rig.ts';

const USERS = ['a', 'b', 'c', 'd', 'e', 'f'];
const DEAD: Verdict = { kind: 'dead', reason: 'refused', status: 400, firstAt: null };

/** Events between two looks at the world; `crashAt` counts calls of the process that syncs. */
const step = fc.record({
  members: fc.subarray(USERS),
  values: fc.array(fc.integer({ min: 0, max: 2 }), { minLength: USERS.length, maxLength: USERS.length }),
  action: fc.constantFrom('run', 'run', 'run', 'resync'),
  crashAt: fc.option(fc.integer({ min: 0, max: 90 })),
  deliveries: fc.array(fc.constantFrom('ok', 'ok', 'dead', 'retry'), { maxLength: 6 }),
  destinations: fc.constantFrom(1, 1, 1, 2),
  guarded: fc.boolean(),
  decision: fc.constantFrom('approve', 'reject'),
});
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

class Crash extends Error {}

/** Has everything that a process does fail from its `n`-th call on, before or after the call was carried out. */
function mortal(calls: number | null) {
  let left = calls ?? Number.POSITIVE_INFINITY;
  const die = () => {
    left -= 1;
    if (left < 0) throw new Crash('crashed');
  };
  return <T extends object>(subject: T): T =>
    new Proxy(subject, {
      get(target, name) {
        const member = Reflect.get(target, name);
        if (typeof member !== 'function') return member;
        return async (...parameters: unknown[]) => {
          die();
          const result = await member.apply(target, parameters);
          die();
          return result;
        };
      },
    });
}

interface Deed {
  readonly keys: readonly string[];
  readonly action: 'run' | 'resync';
  readonly decision: 'approve' | 'reject';
  readonly crashAt: number | null;
}

/** Two rows at a time, so that a crash can come between two batches of a plan. */
function inPages(engine: Engine): Engine {
  return { ...engine, changes: (plan, after) => engine.changes(plan, after, 2) };
}

/** One process's life: it syncs, decides over what is held, and may crash at any moment. */
async function live(rig: Rig, engine: Engine, { keys, action, decision, crashAt }: Deed): Promise<void> {
  const wrap = mortal(crashAt);
  const sync = rig.another({
    store: wrap<Store>(rig.store),
    accept: wrap({ accept: rig.accept }).accept,
    openEngine: async () => ({ ...wrap(inPages(engine)), close: async () => {} }),
  });
  try {
    if (action === 'resync') for (const key of keys) await sync.resync(key);
    const held = (await sync.run()).flatMap(({ runs }) => runs.filter(({ state }) => state === 'held'));
    for (const { id } of held) await sync[decision](id);
  } catch (error) {
    if (!(error instanceof Crash)) throw error;
  }
}

/** Posts what is pending as a destination that answers in this way, and moves what it has learned. */
async function deliver(
  rig: Rig,
  learned: Map<string, Map<string, unknown>>,
  answers: readonly string[],
): Promise<void> {
  let count = 0;
  const verdict = (claim: Claim): Verdict => {
    const answer = answers.length === 0 ? 'ok' : answers[count++ % answers.length];
    if (answer === 'dead') return DEAD;
    if (answer === 'retry' && claim.tries < 2) {
      return { kind: 'retry', dueAt: rig.time(), firstAt: rig.time(), marks: {} };
    }
    return { kind: 'delivered' };
  };
  for (const [name, told] of await rig.deliver(verdict)) {
    const state = learned.get(name) ?? new Map<string, unknown>();
    learned.set(name, state);
    for (const { userId, traits } of told) {
      for (const [key, value] of Object.entries(traits)) state.set(`${key}:${userId}`, value);
    }
  }
}

const runs = (usual: number) => Number(process.env['PROPERTY_RUNS'] ?? usual);

t.test('ends with the current membership at a receiver, whatever happens, with DuckDB', async (t) => {
  const memory = { type: 'duckdb', path: ':memory:', memoryLimit: null, threads: 1 } as const;
  const engine = await openDuckdb(memory, { folder: t.testdirName, clock: systemClock });
  t.teardown(() => engine.close());
  await converges(t, engine, runs(25));
});

t.test('ends with the current membership at a receiver, whatever happens, with Postgres', async (t) => {
  const server = await startFastPostgres();
  t.teardown(() => server.stop());
  const engine = await openPostgres({ type: 'postgres', url: await server.database() });
  t.teardown(() => engine.close());
  await converges(t, engine, runs(10));
});

async function converges(t: Test, engine: Engine, numRuns: number): Promise<void> {
  const rig = await createRig(t);
  let histories = 0;
  let time = rig.time();
  const tick = () => {
    time += 3_600_000;
    rig.setTime(new Date(time).toISOString());
  };
  const history = async (steps: readonly Step[]) => {
    histories += 1;
    const keys = [`club_${histories}`, `score_${histories}`];
    const names = [`crm_${histories}`, `mail_${histories}`];
    const all = names.map((name) => destination(name));
    const learned = new Map<string, Map<string, unknown>>();
    for (const step of steps) {
      define(rig, keys, step);
      rig.config.destinations = all.slice(0, step.destinations);
      tick();
      await live(rig, engine, { ...step, keys });
      await deliver(rig, learned, step.deliveries);
    }
    rig.config.destinations = all;
    // The first round may find a held run, or a change that then dies no more.
    for (let round = 0; round < 2; round += 1) {
      tick();
      await live(rig, engine, { keys, action: 'run', decision: 'approve', crashAt: null });
      await deliver(rig, learned, []);
    }
    const last = steps.at(-1);
    const expected = USERS.map((user, index) => {
      const isMember = last?.members.includes(user) ?? false;
      return [user, isMember, isMember ? last?.values[index] : null];
    });
    for (const name of names) {
      const state = learned.get(name);
      const built = USERS.map((user) => [
        user,
        state?.get(`${keys[0]}:${user}`) ?? false,
        state?.get(`${keys[1]}:${user}`) ?? null,
      ]);
      assert.deepEqual(built, expected, name);
    }
  };
  await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 6 }), history), { numRuns });
  t.ok(histories >= numRuns);
}

function define(rig: Rig, [club = '', score = '']: readonly string[], { members, values, guarded }: Step): void {
  const rows = members.map((user) => `('${user}', ${values[USERS.indexOf(user)]})`).join(', ') || '(null, 0)';
  // The comment tells histories apart: a new key with an orphan's definition is a renamed audience.
  const from = `from (values ${rows}) as rows(user_id, score) -- ${club}`;
  const guard = { ...NO_GUARD, maxExits: guarded ? { count: 1 } : null };
  rig.config.audiences = [audience(club, `select user_id ${from}`, { guard })];
  rig.config.traits = [trait(score, `select user_id, score ${from}`, { guard })];
}
