import type { AudienceRecord } from '../../src/store/port.ts';
import { conflictPrefix, reachedBy } from '../audience-or-trait.ts';
import { areBack } from './destination-room.ts';
import type { Debt } from './owed-membership.ts';
import type { RunContext } from './run-context.ts';

type EndedParts = Pick<RunContext, 'store' | 'config' | 'subject'>;

/** The end that a destination must be sent again because messages about the audience died; null if none did. */
export async function endedFor(context: EndedParts, record: AudienceRecord, destination: string): Promise<Debt | null> {
  const { store, config, subject } = context;
  if (record.endedAt === null) return null;
  const named = config().destinations.filter(({ name }) => name === destination);
  if (reachedBy(subject.source, named).length === 0 || !(await areBack(context))(destination)) return null;
  const filter = { destination, conflictPrefix: conflictPrefix(record.key), limit: 1 };
  const letters = (await store.deadLetters(filter)).filter(({ reason }) => reason !== 'queue_full');
  if (letters.length === 0) return null;
  return { destination, action: 'withdraw', isReturn: record.lapsed.includes(destination), known: null, skips: false };
}

/** Forgets a retired audience once its end has reached every destination that had it, or none is left. */
export async function forgetEnded(context: RunContext): Promise<void> {
  const { store, engine, subject, lease } = context;
  const record = await store.audience(subject.key);
  if (!record || record.endedAt === null || !(await isSettled(context, record))) return;
  await engine.drop(record.key);
  await store.forgetAudience(record.key, lease.fence);
}

async function isSettled({ store, clock, config }: RunContext, record: AudienceRecord): Promise<boolean> {
  const { key, endedAt, lapsed } = record;
  const names = new Set(config().destinations.map(({ name }) => name));
  const isOld = clock.now() - (endedAt ?? 0) > (config().recordRetention?.runs ?? Number.POSITIVE_INFINITY);
  // A destination that was removed from the configuration may return, but not forever.
  if (isOld && (await store.trustsClocks(clock.now()))) return !lapsed.some((name) => names.has(name));
  return lapsed.length === 0 && (await isAllDelivered(store, key));
}

/** True if no message about the audience is pending or dead. Replayed deliveries belong to no run, but count. */
export async function isAllDelivered(store: RunContext['store'], key: string): Promise<boolean> {
  return !(await store.hasUndelivered(conflictPrefix(key)));
}
