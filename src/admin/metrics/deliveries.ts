import { OUTCOMES, type Verdict } from '../../store/port.ts';
import type { Instruments, TimeCounts } from './instruments.ts';

/** Counts of this process's deliveries since it started. */
export interface DeliveryCounts {
  readonly destinations: ReadonlyMap<string, DestinationCounts>;
  readonly endpoints: ReadonlyMap<string, EndpointCounts>;
}

interface DestinationCounts {
  readonly verdicts: Readonly<Record<Verdict['kind'], number>>;
  /** Time from acceptance to delivery. */
  readonly took: TimeCounts;
}

interface EndpointCounts {
  readonly destination: string;
  /** Indexed as `OUTCOMES`. */
  readonly outcomes: readonly number[];
  readonly took: TimeCounts;
}

/** Read with each scrape: counters of prom-client would cost more than all other counting of a delivery. */
export function deliveryMetrics(make: Instruments, { destinations, endpoints }: DeliveryCounts): void {
  make.countedElsewhere('attempts_total', 'Attempts by outcome.', ['destination', 'outcome'], (add) => {
    for (const { destination, outcomes } of endpoints.values()) {
      for (const [place, count] of outcomes.entries()) add({ destination, outcome: OUTCOMES[place] ?? '' }, count);
    }
  });
  make.countedElsewhere('deliveries_total', 'Tries of deliveries by verdict.', ['destination', 'verdict'], (add) => {
    for (const [destination, { verdicts }] of destinations) {
      for (const [verdict, count] of Object.entries(verdicts)) add({ destination, verdict }, count);
    }
  });
  make.timedElsewhere('attempt_seconds', 'Time to an attempt’s status.', 'destination', () =>
    [...endpoints.values()].map(({ destination, took }) => [destination, took]),
  );
  make.timedElsewhere('delivery_seconds', 'Time from acceptance to delivery.', 'destination', () =>
    [...destinations].map(([destination, { took }]) => [destination, took]),
  );
}
