import { CUT_REASONS, type CutReason } from '../../http/refusals.ts';
import type { AcceptResult } from '../../store/port.ts';
import type { Instruments } from './instruments.ts';

/** Upper bounds in seconds. */
const ACCEPT_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5];

export interface IntakeMetrics {
  accepted(source: string, result: AcceptResult, ms: number): void;
  refused(source: string, code: string): void;
  unreadable(source: string, field: string): void;
  discarded(source: string, code: string): void;
  connectionRefused(reason: CutReason): void;
}

export function intakeMetrics(make: Instruments): IntakeMetrics {
  const messages = make.counter('messages_total', 'Messages by what became of them at accept.', ['source', 'result']);
  const refusals = make.counter('accept_refused_total', 'Batches that could not be stored, by error code.', [
    'source',
    'code',
  ]);
  const discards = make.counter(
    'discards_total',
    'Messages and requests that were not taken, and will not be sent again.',
    ['source', 'code'],
  );
  const unreadable = make.counter('timestamps_unreadable_total', 'Times of messages that could not be read.', [
    'source',
    'field',
  ]);
  const connections = make.counter(
    'connections_refused_total',
    'Connections cut, and requests refused, beyond a limit of the server.',
    ['reason'],
    () => CUT_REASONS.map((reason) => ({ reason })),
  );
  const seconds = make.histogram('accept_seconds', 'Time until a batch was durable.', ['source'], ACCEPT_BUCKETS);
  return {
    accepted(source, { accepted, duplicates, suppressed }, ms) {
      seconds.observe({ source }, ms / 1_000);
      messages.inc({ source, result: 'accepted' }, accepted);
      if (duplicates > 0) messages.inc({ source, result: 'duplicate' }, duplicates);
      if (suppressed > 0) messages.inc({ source, result: 'suppressed' }, suppressed);
    },
    refused(source, code) {
      refusals.inc({ source, code });
    },
    discarded(source, code) {
      discards.inc({ source, code });
    },
    connectionRefused(reason) {
      connections.inc({ reason });
    },
    unreadable(source, field) {
      unreadable.inc({ source, field });
    },
  };
}
