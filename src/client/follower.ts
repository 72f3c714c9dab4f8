import type { Loss, LossFacts } from './ledger.ts';
import type { Kind } from './message.ts';
import type { Transport } from './platform.ts';

/** Follows every message of a client, in the order of the calls. */
export interface Follower {
  /** The transport to use, which watches the given one. */
  observe(transport: Transport, url: string): Transport;
  /** A call has queued a message. */
  queued(kind: Kind, text: string): void;
  /** A call has not queued its message. */
  dropped(kind: Kind, text: string, loss: LossFacts): void;
  /** The next `count` of those queued are settled; undefined for each that arrived. */
  settled(count: number, lossOf: (index: number) => LossFacts | undefined): void;
  /** Hears of losses if the option `onLoss` is not given. */
  onLoss(): ((loss: Loss) => void) | undefined;
}
