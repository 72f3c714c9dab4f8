import type { Dispatcher } from 'undici';
import type { Destination } from '../destination.ts';
import type { Clock } from '../kernel/clock.ts';
import type { RollcallError } from '../kernel/errors.ts';
import type { Logger } from '../kernel/log.ts';
import type { Settlement, Store } from '../store/port.ts';
import type { MessageRetention, RecordRetention } from './housekeeping.ts';

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
  | 'poll'
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
  /** Retention of attempts, in milliseconds. */
  readonly attemptRetention: () => number;
  readonly recordRetention?: () => RecordRetention;
  /** Retention of delivered messages; none are kept unless given. */
  readonly messageRetention?: () => MessageRetention;
  /** Time without a process that knows a destination after which its deliveries die, in milliseconds. */
  readonly removedAfter: () => number;
  readonly log: Logger;
  /** Milliseconds to gather ended deliveries before writing them. */
  readonly settleInterval?: number;
  readonly onSettled?: (settlement: Settlement) => void;
  /** Called when a loop has ended unexpectedly: nothing would be delivered any more. */
  readonly onFatal?: (error: RollcallError) => void;
}
