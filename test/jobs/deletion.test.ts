import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { join } from 'node:path';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { openDuckdb } from '../../jobs/engines/duckdb/duckdb.ts';
import { openPostgres } from '../../jobs/engines/postgres/postgres.ts';
import type { Engine, Sync } from '../../jobs/index.ts';
import { Regulations } from '../../src/deletion/regulations.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import type { Claim, Store, Verdict } from '../../src/store/port.ts';
import { startFastPostgres } from '../helpers/postgres.ts';
import { isOnPostgres } from '../helpers/store.ts';
import { until } from '../helpers/until.ts';
import { audience, createRig, destination, type Rig } from './helpers/rig.ts';

/** The moments are those of this seed; DELETION_SEED=N repeats a run's, PROPERTY_RUNS=N makes a long one. */
const SEED = Number(process.env['DELETION_SEED'] ?? randomInt(2 ** 31));
t.comment(`DELETION_SEED=${SEED}`);
/** A history takes six times as long if the store is on Postgres. */
const runs = (usual: number) => Number(process.env['PROPERTY_RUNS'] ?? (isOnPostgres ? Math.ceil(usual / 4) : usual));

const USERS = ['a', 'b', 'gone', 'ü "2"', 'z'];
const VICTIM = 'gone';
const DEAD: Verdict = { kind: 'dead', reason: 'refused', status: 400, firstAt: null };
const NAMES = ['crm', 'mail'];

/** Most histories are about someone who is there. */
const withVictim = (users: string[]) => (users.length % 4 === 0 || users.includes(VICTIM) ? users : [VICTIM, ...users]);

const history = fc.record({
  type: fc.constantFrom('DELETE_ONLY' as const, 'SUPPRESS_WITH_DELETE' as const),
  /** Members before and after. */
  before: fc.subarray(USERS, { minLength: 1 }).map(withVictim),
  after: fc.subarray(USERS, { minLength: 1 }),
  /** The outcome of the first messages. */
  answers: fc.array(fc.constantFrom('ok', 'dead', 'retry', 'keep'), { minLength: 1, maxLength: 5 }),
  action: fc.constantFrom('run' as const, 'run' as const, 'resync' as const, 'retire' as const),
  isConnectedLater: fc.boolean(),
  /** The calls of the syncing process at which the request is filed and carried out. */
  at: fc.oneof(
    fc.record({ call: fc.constant('any'), nth: fc.integer({ min: 0, max: 60 }) }),
    fc.record({
      call: fc.constantFrom('accept', 'changes', 'stage', 'commit', 'lookup', 'deadLetters', 'saveRun', 'lastSequence'),
      nth: fc.integer({ min: 0, max: 5 }),
    }),
  ),
  /** Messages in flight in the meantime, and their outcome. */
  inFlight: fc.integer({ min: 0, max: 4 }),
  verdict: fc.constantFrom('ok', 'dead', 'retry', 'release'),
  replay: fc.constantFrom('never', 'meanwhile', 'afterwards'),
});
type History = typeof history extends fc.Arbitrary<infer T> ? T : never;

/** Between the first looks of a run and its record: a run must not seem to have begun before a deletion that it knows of. */
const BEGINNING: History = {
  ...{ type: 'DELETE_ONLY', before: [VICTIM], after: [VICTIM, 'z'], answers: ['ok'], action: 'resync' },
  ...{ isConnectedLater: false, at: { call: 'lastSequence', nth: 0 }, inFlight: 0, verdict: 'ok', replay: 'never' },
};

interface Post {
  readonly destination: string;
  readonly user: string;
  /** The value for the audience; undefined in a notice. */
  readonly value: boolean | undefined;
  readonly run: string | null;
}

/** A service in another process, which carries deletion requests out. */
function deleter(rig: Rig, sync: Sync): Regulations {
  return new Regulations({
    store: rig.store,
    accept: async (source, messages, { to = [] }) => {
      const routed = messages.map((each) => ({ ...each, source, destinations: to, lane: 'deletion', conflict: null }));
      return rig.store.accept({ messages: routed as never, step: null });
    },
    sources: () => [{ id: 'personas', writeKey: '', enabled: true }],
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

class Play {
  readonly posts: Post[] = [];
  private readonly rig: Rig;
  /** Each process has a session of its own. */
  private readonly open: () => Promise<Engine>;
  private readonly plan: History;
  private readonly key: string;
  private time: number;
  /** The time at which the request was finished, and everything posted until then. */
  private finished: { readonly at: number; readonly posts: number } | null = null;

  constructor(rig: Rig, open: () => Promise<Engine>, plan: History, key: string) {
    this.rig = rig;
    this.open = open;
    this.plan = plan;
    this.key = key;
    this.time = rig.time();
  }

  async perform(): Promise<void> {
    const { rig, plan } = this;
    const { store } = rig;
    rig.config.destinations = NAMES.slice(0, plan.isConnectedLater ? 1 : 2).map((name) => destination(name));
    const other = rig.another({ openEngine: this.open });
    this.define(plan.before);
    this.tick();
    await other.run();
    await this.deliver(plan.answers);
    this.define(plan.after);
    this.tick();
    rig.config.destinations = NAMES.map((name) => destination(name));
    // A command that replays letters has computed what it will send.
    const letters = await store.deadLetters({ limit: 100 });
    const bodies = await other.currentBodies(letters);
    const replays = letters.flatMap(({ id }, place) => {
      const body = bodies[place] ?? null;
      return body instanceof RollcallError ? [] : [{ id, body }];
    });
    const owner = await store.join(60_000);
    const request = { destination: 'crm', limit: plan.inFlight, order: 'usual' } as const;
    const claims = plan.inFlight === 0 ? [] : ((await store.claim(owner, [request])).claims[0] ?? []);
    const deletion = async () => {
      const regulations = deleter(rig, other);
      const id = await regulations.file({ type: plan.type, sources: null, userIds: [VICTIM] });
      if (plan.replay === 'meanwhile') await store.replay(replays);
      await this.settle(owner, claims, plan.verdict);
      await until(async () => (await regulations.find(id))?.status === 'FINISHED');
      await regulations.close();
      this.tick();
      this.finished = { at: this.time, posts: this.posts.length };
    };
    await this.sync(deletion);
    if (!this.finished) await deletion();
    if (plan.replay === 'afterwards') await store.replay(replays);
    await store.leave(owner);
    await this.deliver(['ok']);
    await this.check();
    // The next computation finds the user, if the source still has it and nobody keeps it out.
    this.tick();
    const isBack = plan.after.includes(VICTIM) && plan.type === 'DELETE_ONLY';
    const seen = this.posts.length;
    await other.run();
    await this.deliver(['ok']);
    if (plan.action !== 'retire' || isBack) {
      const told = this.posts.filter(({ user, value }) => user === VICTIM && value !== undefined);
      assert.equal(told.at(-1)?.value === true && this.lastIsNoNotice(), isBack, 'comes back as entered');
    } else assert.ok(this.posts.slice(seen).every(({ user }) => user !== VICTIM));
    await this.cleanUp();
  }

  private lastIsNoNotice(): boolean {
    return this.posts.findLast(({ user }) => user === VICTIM)?.value !== undefined;
  }

  /** The process that syncs: at its call `at` the other one deletes. */
  private async sync(deletion: () => Promise<void>): Promise<void> {
    const { rig, plan, open } = this;
    const calls = new Map<string, number>();
    /** Before and after each call. */
    const pass = async (call: string) => {
      for (const name of [call, 'any']) {
        const count = calls.get(name) ?? 0;
        calls.set(name, count + 1);
        if (name === plan.at.call && count === plan.at.nth && !this.finished) await deletion();
      }
    };
    const around = <T extends object>(subject: T): T =>
      new Proxy(subject, {
        get: (target, name) => {
          const member = Reflect.get(target, name);
          if (typeof member !== 'function') return member;
          return async (...parameters: unknown[]) => {
            await pass(String(name));
            const result = await member.apply(target, parameters);
            await pass(String(name));
            return result;
          };
        },
      });
    const openAround = async (): Promise<Engine> => {
      const engine = await open();
      const paged: Engine = { ...engine, changes: (id, after) => engine.changes(id, after, 2) };
      return { ...around(paged), close: engine.close };
    };
    const sync = rig.another({
      store: around<Store>(rig.store),
      accept: around({ accept: rig.accept }).accept,
      openEngine: openAround,
    });
    const done = plan.action === 'run' ? await sync.run() : [await sync[plan.action](this.key)];
    for (const { error } of done) assert.equal(error, null);
  }

  /** After FINISHED nothing that was computed before it, and a notice for all that had told `true`. */
  private async check(): Promise<void> {
    const { posts, finished } = this;
    assert.ok(finished);
    for (const [place, post] of posts.entries()) {
      if (post.user !== VICTIM || post.value === undefined || place < finished.posts) continue;
      const run = post.run === null ? null : await this.rig.store.run(post.run);
      assert.ok(run && run.startedAt >= finished.at, `${JSON.stringify(post)} was computed before FINISHED`);
    }
    for (const name of NAMES) {
      const theirs = posts.filter((post) => post.user === VICTIM && post.destination === name);
      const lastTrue = theirs.findLastIndex(({ value }) => value === true);
      if (lastTrue < 0) continue;
      const isSettled = theirs.slice(lastTrue + 1).some(({ value }) => value !== true);
      const isNew = posts.indexOf(theirs[lastTrue] as Post) >= finished.posts;
      assert.ok(isSettled || isNew, `${name} was told true and never deleted`);
      assert.ok(
        theirs.some(({ value }) => value === undefined),
        `${name} got no notice`,
      );
    }
    assert.deepEqual(await this.rig.store.deadLetters({ userId: VICTIM, limit: 10 }), []);
  }

  private define(members: readonly string[]): void {
    const rows = members.map((user) => `('${user}')`).join(', ');
    // The comment tells histories apart: a new key with an orphan's definition is a renamed audience.
    const sql = `select user_id from (values ${rows}) as rows(user_id) -- ${this.key}`;
    this.rig.config.audiences = [audience(this.key, sql)];
  }

  private tick(): void {
    this.time += 60_000;
    this.rig.setTime(new Date(this.time).toISOString());
  }

  private async deliver(answers: readonly string[]): Promise<void> {
    const { store } = this.rig;
    const owner = await store.join(60_000);
    let count = 0;
    for (const name of NAMES) {
      for (;;) {
        const request = { destination: name, limit: 100, order: 'usual' } as const;
        const claims = (await store.claim(owner, [request])).claims[0] ?? [];
        if (claims.length === 0) break;
        let isKept = false;
        for (const claim of claims) {
          const answer = answers[count++ % answers.length] ?? 'ok';
          isKept ||= answer === 'keep' || answer === 'retry';
          await this.settle(owner, [claim], answer);
        }
        if (isKept) break;
      }
    }
    await store.leave(owner);
  }

  private async settle(owner: number, claims: readonly Claim[], answer: string): Promise<void> {
    const at = this.time + (answer === 'retry' ? 30_000 : 0);
    const verdicts: Record<string, Verdict> = {
      ok: { kind: 'delivered' },
      dead: DEAD,
      retry: { kind: 'retry', dueAt: at, firstAt: this.time, marks: {} },
      keep: { kind: 'release', dueAt: null },
      release: { kind: 'release', dueAt: null },
    };
    const verdict = verdicts[answer] as Verdict;
    if (claims.length === 0) return;
    for (const { destination, userId, body, run } of verdict.kind === 'delivered' ? claims : []) {
      const value = (JSON.parse(body) as { traits?: Record<string, boolean> }).traits?.[this.key];
      this.posts.push({ destination, user: userId ?? '', value, run });
    }
    const attempt = { endpoint: 'e', at: this.time, ms: 1, status: 200, error: null, response: null } as const;
    const attempts = [{ ...attempt, outcome: 'success' as const }];
    await this.rig.store.settle(
      owner,
      claims.map((claim) => ({ claim, verdict, attempts: verdict.kind === 'release' ? [] : attempts })),
    );
  }

  /** The next history begins with an empty queue, a user whom nobody keeps out, and no audience that knows the user. */
  private async cleanUp(): Promise<void> {
    const { store } = this.rig;
    const fence = await store.takeLease(`sync:${this.key}`, 60_000);
    assert.ok(fence);
    await store.forgetAudience(this.key, fence);
    const engine = await this.open();
    await engine.drop(this.key);
    await engine.close();
    await store.suppress([VICTIM], null, false);
    await store.drop((await store.deadLetters({ limit: 1000 })).map(({ id }) => id));
    this.tick();
    await this.deliver(['ok']);
  }
}

async function survives(t: Test, open: () => Promise<Engine>, numRuns: number): Promise<void> {
  const rig = await createRig(t);
  let histories = 0;
  const play = async (plan: History) => {
    histories += 1;
    await new Play(rig, open, plan, `club_${histories}`).perform();
  };
  await fc.assert(fc.asyncProperty(history, play), { numRuns, seed: SEED, examples: [[BEGINNING]] });
  t.comment(`${histories} deletions at any moment`);
  t.ok(histories >= numRuns);
}

t.test("sends nothing computed before a user's deletion after it, with DuckDB", async (t) => {
  const folder = t.testdir({});
  const file = { type: 'duckdb', path: join(folder, 'engine.duckdb'), memoryLimit: null, threads: 1 } as const;
  const open = () => openDuckdb(file, { folder, clock: systemClock });
  // It stays open from one session to the next.
  const kept = await open();
  t.teardown(() => kept.close());
  await survives(t, open, runs(20));
});

t.test("sends nothing computed before a user's deletion after it, with Postgres", async (t) => {
  const server = await startFastPostgres();
  t.teardown(() => server.stop());
  const url = await server.database();
  await survives(t, () => openPostgres({ type: 'postgres', url }), runs(6));
});
