import type { CoreOptions } from '../options.ts';
import type { ReceiverStore } from '../store.ts';
import type { ReportFailure } from './report.ts';

type Settings = Required<Pick<CoreOptions, 'on' | 'name' | 'test' | 'clock' | 'drain' | 'stuckAfter' | 'concurrency'>>;

/** What the parts of a receiver share: its options, with their defaults, and more. */
export interface CoreParts extends Readonly<Settings> {
  readonly store: ReceiverStore;
  readonly report: ReportFailure;
  /** Senders choose ids and sequences, so each sender needs its own scope. */
  scopeOf(sender: string): string;
  /** The scope that a deletion notice of this scope deletes in. */
  deletedScopeOf(scope: string): string;
}
