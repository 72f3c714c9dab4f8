import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** A histogram of times: counts by upper bounds in milliseconds, one more count beyond the last bound, and the sum. */
export interface TimeCounts {
  readonly bounds: readonly number[];
  readonly counts: readonly number[];
  readonly sum: number;
}

/** Makes the metrics of one registry. Their names begin with `rollcall_`. */
export class Instruments {
  private readonly registry: Registry;
  private readonly registers: Registry[];

  constructor(registry: Registry) {
    this.registry = registry;
    this.registers = [registry];
  }

  /** @param known - labels of series that start at 0: Prometheus sees no increase in a series that starts at 1 */
  counter(name: string, help: string, labelNames: string[] = [], known: () => readonly Labels[] = () => []): Counter {
    return new Counter({
      name: `rollcall_${name}`,
      help,
      labelNames,
      registers: this.registers,
      collect() {
        for (const labels of known()) this.inc(labels, 0);
      },
    });
  }

  /** @param buckets - upper bounds, in seconds */
  histogram(name: string, help: string, labelNames: string[], buckets: number[]): Histogram {
    return new Histogram({ name: `rollcall_${name}`, help, labelNames, buckets, registers: this.registers });
  }

  /** A counter that is counted elsewhere and read with each scrape. Labels that never occurred have no series. */
  countedElsewhere(name: string, help: string, labelNames: string[], read: (add: Add) => void): void {
    const counter: Counter = new Counter({
      name: `rollcall_${name}`,
      help,
      labelNames,
      registers: this.registers,
      collect() {
        counter.reset();
        read((labels, count) => {
          if (count > 0) counter.inc(labels, count);
        });
      },
    });
  }

  /** A histogram in seconds that is counted elsewhere and read with each scrape. Counts of one label are added up. */
  timedElsewhere(
    name: string,
    help: string,
    labelName: string,
    read: () => readonly (readonly [label: string, times: TimeCounts])[],
  ): void {
    const metric = new CountedHistogram(`rollcall_${name}`, help, labelName, read);
    // prom-client's types know only its own kinds of metrics.
    this.registry.registerMetric(metric as unknown as Histogram);
  }

  /** A gauge that is read with each scrape. Series without a new value are removed, all of them if reading fails. */
  gauge(name: string, help: string, labelNames: string[], read: (gauge: Gauge) => Promise<void>): Gauge {
    return new Gauge({
      name: `rollcall_${name}`,
      help,
      labelNames,
      registers: this.registers,
      async collect() {
        this.reset();
        await read(this).catch(() => undefined);
      },
    });
  }
}

type Labels = Record<string, string>;

type Add = (labels: Labels, count: number) => void;

/** A metric with prom-client's interface, which has no histogram whose counts can be set. */
class CountedHistogram {
  readonly type = 'histogram';
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
  private readonly label: string;
  private readonly read: () => readonly (readonly [label: string, times: TimeCounts])[];

  constructor(name: string, help: string, label: string, read: CountedHistogram['read']) {
    this.name = name;
    this.help = help;
    this.label = label;
    this.labelNames = [label];
    this.read = read;
  }

  async get() {
    const { name, help, type } = this;
    const sums = new Map<string, TimeCounts>();
    for (const [label, times] of this.read()) sums.set(label, added(sums.get(label), times));
    return { name, help, type, aggregator: 'sum', values: [...sums].flatMap((each) => this.values(...each)) };
  }

  private values(label: string, { bounds, counts, sum }: TimeCounts) {
    const labels = { [this.label]: label };
    let count = 0;
    const buckets = counts.map((within, place) => {
      count += within;
      const bound = bounds[place];
      return {
        metricName: `${this.name}_bucket`,
        labels: { le: bound === undefined ? '+Inf' : bound / 1_000, ...labels },
        value: count,
      };
    });
    return [
      ...buckets,
      { metricName: `${this.name}_sum`, labels, value: sum / 1_000 },
      { metricName: `${this.name}_count`, labels, value: count },
    ];
  }
}

function added(one: TimeCounts | undefined, { bounds, counts, sum }: TimeCounts): TimeCounts {
  if (!one) return { bounds, counts, sum };
  return { bounds, counts: counts.map((count, place) => count + (one.counts[place] ?? 0)), sum: sum + one.sum };
}
