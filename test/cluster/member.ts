import { createSync, type SyncOptions } from '../../jobs/index.ts';
import { createAccept } from '../../src/accept.ts';
import { Regulations } from '../../src/deletion/regulations.ts';
import { createAgent } from '../../src/deliver/http/agent.ts';
import { Worker } from '../../src/deliver/worker.ts';
import { endpointId } from '../../src/destination.ts';
import { type Clock, systemClock } from '../../src/kernel/clock.ts';
import { silentLogger } from '../../src/kernel/log.ts';
import type { Message } from '../../src/message.ts';
import type { Run } from '../../src/store/port.ts';
import { openPostgresStore } from '../../src/store/postgres/store.ts';
import type { ForgetType } from './deletions.ts';
import { PARITY } from './parity.ts';

/** Orders to a member of the cluster; it answers with the same object and whether it was done. */
export type Task =
  | { readonly accept: readonly string[] }
  | { readonly tick: number; readonly users: readonly string[] }
  /** Records something about a user who may be deleted. */
  | { readonly about: string; readonly recordedAt: number }
  | { readonly forget: readonly string[]; readonly type: ForgetType; readonly n: number }
  /** Ends the schedules of this member. */
  | { readonly unschedule: true }
  /** Syncs the scheduled audience once more, finishing what a member that died has begun. */
  | { readonly conclude: true }
  | { readonly stop: true };

export interface MemberOptions {
  readonly database: string;
  readonly receiver: string;
  /** Time runs this many times faster, for the process and the database alike. */
  readonly speed: number;
}

const { database, receiver, speed } = JSON.parse(process.argv[2] ?? '{}') as MemberOptions;

const clock: Clock = {
  ...systemClock,
  now: () => Date.now() * speed,
  monotonic: () => performance.now() * speed,
  uptime: () => systemClock.uptime() * speed,
  after: (ms, callback) => systemClock.after(ms / speed, callback),
};
const store = await openPostgresStore({
  url: database,
  maxQueued: 100_000,
  clock,
  time: `(extract(epoch FROM statement_timestamp()) * ${1_000 * speed})::bigint`,
});
const endpoint = { id: endpointId('crm', receiver), url: receiver, headers: {} };
const destinations = [
  {
    name: 'crm',
    enabled: true,
    sources: ['shop'],
    secrets: [],
    endpoints: [endpoint],
    require: 'any',
    ratePerSecond: null,
  },
] as const;
const worker = new Worker({
  store,
  clock,
  agent: createAgent({ allow: ['127.0.0.0/8'], ca: [], proxy: null }),
  serviceName: 'Rollcall',
  destinations,
  attemptRetention: () => 86_400_000,
  removedAfter: () => 86_400_000,
  log: silentLogger,
});
const accept = createAccept(store, () => destinations, worker);

const track = (id: string): Message => ({
  type: 'track',
  messageId: id,
  userId: id,
  integrations: null,
  body: JSON.stringify({ id }),
});

const about = ({ about, recordedAt }: { about: string; recordedAt: number }): Message => ({
  type: 'track',
  messageId: `${about}-${recordedAt}-${process.pid}`,
  userId: about,
  integrations: null,
  body: JSON.stringify({ type: 'track', about, recordedAt }),
});

const change = (user: string, tick: number): Message => ({
  type: 'identify',
  messageId: `${user}-${tick}`,
  userId: user,
  integrations: null,
  body: JSON.stringify({ user, tick }),
  conflict: `aud|${user}`,
});

const guard = { maxExits: null, maxEntries: null, maxChanges: null, minMembers: 0, allowEmpty: true };
const expect = { freshness: null, minRows: null, maxChange: null, dbt: null };
const audience = {
  ...({ kind: 'audience', name: 'Parity', key: PARITY.key, engine: 'lake', source: 'shop' } as const),
  ...{ schedule: '* * * * * *', timezone: null, timeout: 3_600_000, paused: false, guard, expect },
  sql: `SELECT 'p' || n AS user_id FROM generate_series(1, ${PARITY.users}) AS n
        WHERE (n + floor(extract(epoch FROM $now))::bigint) % 2 = 0
        UNION ALL SELECT 'v' || n FROM generate_series(1, ${PARITY.victims}) AS n
        WHERE (n + floor(extract(epoch FROM $now))::bigint) % 4 <> 0`,
};
const engines = { lake: { type: 'postgres', url: database, concurrency: 4 } } as const;
/** Schedules go by the real time. */
const syncOptions: SyncOptions = {
  ...{ store, accept, clock: systemClock, log: silentLogger },
  config: () => ({ folder: '/', engines, audiences: [audience], traits: [], destinations }),
};
const sync = createSync(syncOptions);

const regulations = new Regulations({
  store,
  accept,
  giveBack: () => worker.giveBackStock(),
  sources: () => [{ id: 'shop', writeKey: 'shop', enabled: true }],
  destinations: () => destinations,
  elsewhere: async () => [],
  toldByEngines: (users, sources) => sync.told(users, sources),
  forgetInEngines: (ids, sources) => sync.forget(ids, sources, () => store.events.names(ids)),
  clock,
  log: silentLogger,
});

/** Requests that another has filed, and did not live to carry out. */
function keepResuming(): void {
  void regulations.resume().catch(() => undefined);
  setTimeout(keepResuming, 1_000).unref();
}

/** A sync in small: under the audience's lease, once per tick, whoever gets there first. */
async function runTick(tick: number, users: readonly string[]): Promise<boolean> {
  const fence = await store.takeLease('sync:aud', 5_000);
  if (!fence) return false;
  const id = `run-${tick}`;
  const known = await store.run(id);
  if (known?.state !== 'done') {
    if (!known) await store.saveRun(runOf(id, 'sending'), fence);
    const { epoch } = await store.deletions(null);
    const step = { run: id, fence, cursor: String(tick), epoch };
    await accept(
      'shop',
      users.map((user) => change(user, tick)),
      { step },
    );
    await store.saveRun(runOf(id, 'done'), fence);
  }
  await store.releaseLease(fence);
  return true;
}

function runOf(id: string, state: Run['state']): Run {
  const counts = { members: 0, entered: 0, exited: 0, changed: 0, invalid: 0, duplicates: 0, sent: 0 };
  const versions = { fromVersion: 0, toVersion: 1, asOf: 0, epoch: 0, startedAt: clock.now(), finishedAt: null };
  const rest = { held: false, reason: null, code: null, cursor: null, definitionHash: '', destinations: null };
  return { id, key: 'aud', kind: 'audience', action: 'sync', state, first: false, ...counts, ...versions, ...rest };
}

async function perform(task: Task): Promise<boolean | string> {
  if ('forget' in task) return regulations.file({ type: task.type, sources: null, userIds: task.forget });
  if ('accept' in task) await accept('shop', task.accept.map(track));
  else if ('about' in task) await accept('shop', [about(task)]);
  else if ('tick' in task) return runTick(task.tick, task.users);
  else if ('unschedule' in task) await sync.stop();
  else if ('conclude' in task) return (await createSync(syncOptions).run([PARITY.key])).every(({ error }) => !error);
  else {
    await regulations.close();
    await sync.stop();
    await worker.stop();
    await store.close();
  }
  return true;
}

process.on('message', (task: Task) => {
  perform(task)
    .catch(() => false)
    .then((done) => {
      process.send?.({ task, done: done !== false, ...(typeof done === 'string' ? { id: done } : {}) });
      if ('stop' in task) process.disconnect();
    });
});
// Without the test that started it, a member has nothing to live for.
process.on('disconnect', () => process.exit());
await worker.start();
await sync.start();
keepResuming();
process.send?.('ready');
