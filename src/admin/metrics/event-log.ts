import type { Store } from '../../store/port.ts';
import type { Instruments } from './instruments.ts';

type MeasuredLog = Store['events'];
type Counts = Readonly<Record<string, number>>;

export interface EventLogMetricsParts {
  /** Null if no log is kept. */
  readonly eventLog: MeasuredLog | null;
  /** Requests by outcome and bytes by direction; null without a bucket. */
  readonly bucketTraffic: { readonly requests: Counts; readonly bytes: Counts } | null;
  /** Store time in milliseconds, which the tail uses. */
  readonly storeTime: () => number;
}

export interface EventLogMetrics {
  /** Count a failure of the event log's background work. */
  logFailed(): void;
  /** Count events that a send has queued. */
  pastEvents(destination: string, events: number): void;
}

/** Without a log, these gauges have no value. */
export function eventLogMetrics(
  make: Instruments,
  { eventLog, bucketTraffic, storeTime }: EventLogMetricsParts,
): EventLogMetrics {
  const gauge = (name: string, help: string, read: (log: MeasuredLog) => Promise<number | null>) =>
    make.gauge(`event_log_${name}`, help, [], async (gauge) => {
      gauge.remove();
      const value = eventLog && (await read(eventLog));
      if (value !== null) gauge.set(value);
    });
  gauge('bytes', 'Size of the event log on disk, without its tail.', async (log) =>
    log.kind === 'table' ? (await log.size()).bytes : sum((await log.state()).files.map(({ bytes }) => bytes)),
  );
  gauge('files', 'Files of the event log; with a Postgres store, days that have a partition.', async (log) =>
    log.kind === 'table' ? (await log.size()).partitions : (await log.state()).files.length,
  );
  gauge('unsealed_events', 'Events that wait to be sealed into files.', async (log) =>
    log.kind === 'table' ? null : (await log.state()).tail.events,
  );
  gauge('sealing_lag_seconds', 'Age of the oldest event that waits to be sealed.', async (log) => {
    if (log.kind === 'table') return null;
    const { since } = (await log.state()).tail;
    return since === null ? 0 : Math.max(0, storeTime() - since) / 1_000;
  });
  const traffic = (kind: 'requests' | 'bytes', help: string, label: string) =>
    make.countedElsewhere(`event_log_bucket_${kind}_total`, help, [label], (add) => {
      for (const [value, count] of Object.entries(bucketTraffic?.[kind] ?? {})) add({ [label]: value }, count);
    });
  traffic('requests', "Requests to the event log's bucket, by outcome: ok, retried or failed.", 'outcome');
  traffic('bytes', "Bytes of files sent to the event log's bucket, and received from it.", 'direction');
  const failures = make.counter(
    'event_log_failures_total',
    'Times that sealing, merging or dropping failed; it is tried again.',
  );
  const past = make.counter('past_events_total', 'Past events that sends have queued.', ['destination']);
  return {
    logFailed: () => failures.inc(),
    pastEvents: (destination, events) => past.inc({ destination }, events),
  };
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, each) => total + each, 0);
