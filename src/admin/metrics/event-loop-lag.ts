import { createHistogram } from 'node:perf_hooks';
import { Gauge, type Registry } from 'prom-client';
import { nextMultiple, systemClock } from '../../kernel/clock.ts';

/** Interval of looking at the clock, in milliseconds: each look wakes an idle process. */
const LOOK_EVERY = 1_000;

/** The lag of the event loop between two scrapes: how much later than asked for a timer fires. */
export function eventLoopLag(registry: Registry): void {
  const lags = createHistogram();
  const look = () => {
    const due = nextMultiple(LOOK_EVERY, systemClock.monotonic());
    systemClock.roughly(LOOK_EVERY, () => {
      lags.record(Math.max(1, Math.round((systemClock.monotonic() - due) * 1_000)));
      look();
    });
  };
  look();
  for (const [name, read] of [
    ['p50', () => lags.percentile(50)],
    ['p99', () => lags.percentile(99)],
    ['max', () => lags.max],
  ] as const) {
    new Gauge({
      name: `nodejs_eventloop_lag_${name}_seconds`,
      help: `The ${name} of the event loop lag since the last scrape.`,
      registers: [registry],
      collect() {
        this.set(lags.count === 0 ? 0 : read() / 1_000_000);
        // Gauges are read in this order.
        if (name === 'max') lags.reset();
      },
    });
  }
}
