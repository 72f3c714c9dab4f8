import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** Makes the metrics of one registry. Their names begin with `rollcall_`. */
export class Instruments {
  private readonly registers: Registry[];

  constructor(registry: Registry) {
    this.registers = [registry];
  }

  counter(name: string, help: string, labelNames: string[] = []): Counter {
    return new Counter({ name: `rollcall_${name}`, help, labelNames, registers: this.registers });
  }

  /** @param buckets - upper bounds, in seconds */
  histogram(name: string, help: string, labelNames: string[], buckets: number[]): Histogram {
    return new Histogram({ name: `rollcall_${name}`, help, labelNames, buckets, registers: this.registers });
  }

  /** A gauge that is read with each scrape. Series that are gone since the last scrape are removed, all of them if reading fails. */
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
