import memoize from 'lodash/memoize.js';
import type { Outcome, Settlement } from '../../store/port.ts';
import type { Instruments } from './instruments.ts';

/** Upper bounds in seconds: an attempt ends at five. */
const ATTEMPT_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
/** Upper bounds in seconds, from acceptance to delivery; retries go on for four hours. */
const DELIVERY_BUCKETS = [0.01, 0.05, 0.1, 0.5, 1, 5, 30, 60, 300, 1_800, 7_200, 14_400];

/** Counts what goes out. */
export interface DeliveryMetrics {
  settled(settlement: Settlement): void;
}

/** @param storeTime - the time that deliveries were accepted at, in milliseconds */
export function deliveryMetrics(make: Instruments, storeTime: () => number): DeliveryMetrics {
  const attempts = make.counter('attempts_total', 'Attempts by outcome.', ['destination', 'outcome']);
  const deliveries = make.counter('deliveries_total', 'Tries of deliveries by verdict.', ['destination', 'verdict']);
  const attemptSeconds = make.histogram(
    'attempt_seconds',
    'Time to an attempt’s status.',
    ['destination'],
    ATTEMPT_BUCKETS,
  );
  const deliverySeconds = make.histogram(
    'delivery_seconds',
    'Time from acceptance to delivery.',
    ['destination'],
    DELIVERY_BUCKETS,
  );
  // Finding a metric by its labels costs more than counting.
  const forDestination = memoize((destination: string) => ({
    deliveries: memoize((verdict: Settlement['verdict']['kind']) => deliveries.labels({ destination, verdict })),
    attempts: memoize((outcome: Outcome) => attempts.labels({ destination, outcome })),
    deliverySeconds: deliverySeconds.labels({ destination }),
    attemptSeconds: attemptSeconds.labels({ destination }),
  }));
  return {
    settled({ claim, verdict, attempts: made }) {
      const of = forDestination(claim.destination);
      of.deliveries(verdict.kind).inc();
      if (verdict.kind === 'delivered') of.deliverySeconds.observe((storeTime() - claim.acceptedAt) / 1_000);
      for (const { outcome, ms } of made) {
        of.attempts(outcome).inc();
        if (outcome !== 'skipped') of.attemptSeconds.observe(ms / 1_000);
      }
    },
  };
}
