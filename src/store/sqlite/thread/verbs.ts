import { bury, expire, restNotices } from '../../queue/burying.ts';
import { erase } from '../../queue/erase.ts';
import { requeue } from '../../queue/held-out.ts';
import { deliverAgain, drop, replay, resend } from '../../queue/letters.ts';
import type { QueueSession } from '../../queue/session.ts';
import { performShared, type SharedCall } from '../../shared-ports.ts';
import { servedSince } from '../clock.ts';
import type { Connection } from '../connection.ts';
import {
  deletedInLog,
  deletionsInLog,
  eventFirstDay,
  eventState,
  eventTail,
  eventUnread,
  forgetUnread,
  leftovers,
  removed,
  replaceFiles,
  seal,
  tailNames,
  willWrite,
} from '../event-log.ts';
import { prune } from '../prune.ts';
import { accept } from '../queue/accept.ts';
import { claim } from '../queue/claim.ts';
import { heartbeat, join, leave } from '../queue/leases.ts';
import { begin, rescue, settle } from '../queue/settle.ts';
import { SqliteSession } from '../session.ts';

/** Wrap a verb that is written once for both databases. */
const shared =
  <A extends readonly unknown[], R>(verb: (session: QueueSession, ...given: A) => Promise<R>) =>
  (db: Connection, now: number, ...given: A): Promise<R> =>
    verb(new SqliteSession(db, now), ...given);

/** The queue's verbs, each performed in the transaction of its group. */
const VERBS = {
  ...{ accept, claim, settle, begin, rescue, join, heartbeat, leave, servedSince },
  ...{ expire: shared(expire), restNotices: shared(restNotices), bury: shared(bury), requeue: shared(requeue) },
  ...{ replay: shared(replay), deliverAgain: shared(deliverAgain), resend: shared(resend), drop: shared(drop) },
  ...{ erase: shared(erase), prune },
  ...{
    eventFirstDay,
    eventState,
    eventTail,
    eventUnread,
    forgetUnread,
    tailNames,
    willWrite,
    seal,
    replaceFiles,
    leftovers,
    removed,
    deletionsInLog,
    deletedInLog,
  },
  ping: () => undefined,
  tryWrite: (db: Connection, now: number) => db.setMeta('written', String(now)),
} satisfies Record<string, (db: Connection, now: number, ...args: never[]) => unknown>;

type Verbs = typeof VERBS;
export type VerbName = keyof Verbs;
export type VerbArguments<V extends VerbName> = Parameters<Verbs[V]> extends [unknown, unknown, ...infer A] ? A : [];
export type VerbResult<V extends VerbName> = Awaited<ReturnType<Verbs[V]>>;

export type Operation = {
  /** The store's time, and the milliseconds it is ahead of the wall clock. */
  readonly now: number;
  readonly ahead: number;
} & ({ readonly verb: VerbName; readonly args: readonly unknown[] } | { readonly shared: SharedCall });

export function perform(db: Connection, operation: Operation): unknown {
  const { now, ahead } = operation;
  if ('shared' in operation) return performShared(new SqliteSession(db, now, ahead), operation.shared);
  const work = VERBS[operation.verb] as (db: Connection, now: number, ...args: readonly unknown[]) => unknown;
  return work(db, now, ...operation.args);
}

export type OperationResult = { readonly value: unknown } | { readonly code: string; readonly message: string };
