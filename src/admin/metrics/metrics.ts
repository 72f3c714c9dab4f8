import once from 'lodash/once.js';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { type DeliveryCounts, deliveryMetrics } from './deliveries.ts';
import { type EventLogMetrics, type EventLogMetricsParts, eventLogMetrics } from './event-log.ts';
import { eventLoopLag } from './event-loop-lag.ts';
import { Instruments } from './instruments.ts';
import { type IntakeMetrics, intakeMetrics } from './intake.ts';
import { type StoreParts, storeMetrics } from './store.ts';
import { type SyncMetrics, type SyncParts, syncMetrics } from './syncs.ts';

/** Counts what passes. Never scans a table. */
export interface Metrics extends IntakeMetrics, SyncMetrics, EventLogMetrics {
  readonly registry: Registry;
}

type MetricsParts = StoreParts & SyncParts & EventLogMetricsParts & { readonly deliveries: DeliveryCounts };

/** Metrics of the process, shared by all services in it. Created once, since their observers last as long as the process. */
const processMetrics = once(() => {
  const registry = new Registry();
  // Its own monitor would wake an idle process a hundred times a second.
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 2 ** 31 - 1 });
  for (const name of ['min', 'max', 'mean', 'stddev', 'p50', 'p90', 'p99'])
    registry.removeSingleMetric(`nodejs_eventloop_lag_${name}_seconds`);
  eventLoopLag(registry);
  return registry.getMetricsAsArray().flatMap(({ name }) => registry.getSingleMetric(name) ?? []);
});

/** The metrics of docs/alerts.md, which a test compares with these. */
export function createMetrics(parts: MetricsParts): Metrics {
  const registry = new Registry();
  for (const metric of processMetrics()) registry.registerMetric(metric);
  const make = new Instruments(registry);
  storeMetrics(make, parts);
  deliveryMetrics(make, parts.deliveries);
  return {
    registry,
    ...intakeMetrics(make),
    ...syncMetrics(make, parts),
    ...eventLogMetrics(make, parts),
  };
}
