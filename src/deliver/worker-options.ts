import type { Dispatcher } from 'undici';
import type { Destination } from '../destination.ts';
import type { Clock } from '../kernel/clock.ts';
import type { RollcallError } from '../kernel/errors.ts';
import type { Logger } from '../kernel/log.ts';
import type { Settlement, Store } from '../store/port.ts';
import type { MessageRetention, RecordRetention } from './housekeeping.ts';

/** The store, as far as delivery needs it. */
export type WorkerStore = Pick<
  Store,
  | 'time'
  | 'join'
  | 'owners'
  | 'servedSince'
  | 'publish'
  | 'rosters'
  | 'countOrphans'
  | 'takeLease'
  | 'renewLease'
  | 'releaseLease'
  | 'heartbeat'
  | 'leave'
  | 'rescue'
  | 'begin'
  | 'claim'
  | 'settle'
  | 'expire'
  | 'restNotices'
  | 'bury'
  | 'requeue'
  | 'resend'
  | 'attempts'
  | 'backlog'
  | 'endpoints'
  | 'markEndpoint'
  | 'deletions'
  | 'trustsClocks'
  | 'prune'
  | 'pruneRecords'
  | 'pruneAudits'
  | 'pruneDelivered'
  | 'boundDelivered'
>;

export interface WorkerOptions {
  readonly store: WorkerStore;
  readonly clock: Clock;
  readonly agent: Dispatcher;
  readonly serviceName: string;
  readonly destinations: readonly Destination[];
  /** How long attempts are kept, in milliseconds. */
  readonly attemptRetention: () => number;
  readonly recordRetention?: () => RecordRetention;
  /** How long delivered messages are kept, in milliseconds; none unless given. */
  readonly messageRetention?: () => MessageRetention;
  /** How long no process must have known a destination before its deliveries become dead letters, in milliseconds. */
  readonly removedAfter: () => number;
  readonly log: Logger;
  /** For how long deliveries that ended are gathered before they are written, in milliseconds. */
  readonly settleInterval?: number;
  readonly onSettled?: (settlement: Settlement) => void;
  /** Called when a loop has ended that should not: nothing would be delivered any more. */
  readonly onFatal?: (error: RollcallError) => void;
}
