import { collectDefaultMetrics, Registry } from 'prom-client';
import { type DeliveryMetrics, deliveryMetrics } from './deliveries.ts';
import { type EventLogMetrics, type EventLogParts, eventLogMetrics } from './event-log.ts';
import { Instruments } from './instruments.ts';
import { type IntakeMetrics, intakeMetrics } from './intake.ts';
import { type StoreParts, storeMetrics } from './store.ts';
import { type SyncMetrics, syncMetrics } from './syncs.ts';

/** Counts what passes; nothing here ever scans a table. */
export interface Metrics extends IntakeMetrics, DeliveryMetrics, SyncMetrics, EventLogMetrics {
  readonly registry: Registry;
}

type MetricsParts = StoreParts & EventLogParts;

/** The metrics of docs/metrics.md; a test holds both together. */
export function createMetrics(parts: MetricsParts): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const make = new Instruments(registry);
  storeMetrics(make, parts);
  return {
    registry,
    ...intakeMetrics(make),
    ...deliveryMetrics(make, parts.storeTime),
    ...syncMetrics(make),
    ...eventLogMetrics(make, parts),
  };
}
