import { readFileSync, writeFileSync } from 'node:fs';
import { createMetrics } from '../src/admin/metrics/metrics.ts';
import { systemClock } from '../src/kernel/clock.ts';

/** Writes the table of docs/alerts.md anew: `node scripts/write-metrics.ts`. */

const PAGE = new URL('../docs/alerts.md', import.meta.url);
const TABLE = /^\| metric \|.*?\n(?!\|)/ms;

/** The table of our metrics, their names and meanings, for docs/alerts.md. */
export function metricsTable(): string {
  const nothing = async () => [];
  const { registry } = createMetrics({
    store: {
      ...{ backlog: nothing, orphans: nothing, endpoints: nothing, oldestUntried: nothing, lastSuccesses: nothing },
      ping: async () => undefined,
    },
    live: { allStates: nothing, currentState: async () => null },
    storeTime: () => 0,
    deliveries: { destinations: new Map(), endpoints: new Map() },
    eventLog: null,
    bucketTraffic: null,
    clock: systemClock,
    destinations: () => [],
    audiences: nothing,
    keys: () => [],
  });
  const rows = registry
    .getMetricsAsArray()
    .map((metric) => metric as unknown as Described)
    .filter(({ name }) => name.startsWith('rollcall_'))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ name, type, help, labelNames }) => {
      const labels = labelNames.map((label) => `\`${label}\``).join(', ');
      return `| \`${name}\` | ${type ?? kindOf(name)} | ${labels} | ${help} |`;
    });
  return ['| metric | kind | labels | meaning |', '|---|---|---|---|', ...rows, ''].join('\n');
}

interface Described {
  readonly name: string;
  readonly help: string;
  readonly type?: string;
  readonly labelNames: readonly string[];
}

const kindOf = (name: string) => (name.endsWith('_total') ? 'counter' : 'gauge');

if (import.meta.main) writeFileSync(PAGE, readFileSync(PAGE, 'utf8').replace(TABLE, metricsTable()));
