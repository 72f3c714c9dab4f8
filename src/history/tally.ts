import { ATTEMPT_BOUNDS, DELIVERY_BOUNDS, OUTCOMES, type Settlement, type Verdict } from '../store/port.ts';

type VerdictKind = Verdict['kind'];

/** Durations counted by upper bound, the last count beyond all of them; and their sum. */
interface Times {
  readonly bounds: readonly number[];
  readonly counts: readonly number[];
  readonly sum: number;
}

class Histogram implements Times {
  readonly counts: number[];
  sum = 0;
  readonly bounds: readonly number[];

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = new Array<number>(bounds.length + 1).fill(0);
  }

  add(ms: number): void {
    const { bounds, counts } = this;
    let place = 0;
    while (place < bounds.length && ms > (bounds[place] as number)) place += 1;
    counts[place] = (counts[place] as number) + 1;
    this.sum += ms;
  }
}

class DestinationTally {
  /** Deliveries created from accepted messages. */
  accepted = 0;
  readonly verdicts: Record<VerdictKind, number> = { delivered: 0, retry: 0, release: 0, dead: 0 };
  /** Time from acceptance to delivery. */
  readonly took = new Histogram(DELIVERY_BOUNDS);
}

/** Outcomes of the attempts at one endpoint, indexed as `OUTCOMES`. */
class EndpointTally {
  readonly destination: string;
  readonly outcomes: number[] = OUTCOMES.map(() => 0);
  readonly took = new Histogram(ATTEMPT_BOUNDS);

  constructor(destination: string) {
    this.destination = destination;
  }
}

/**
 * Counts since the process started. Metrics and history both read it, so that a delivery is counted once. Its size
 * depends on the configuration, not on traffic.
 */
export class Tally {
  readonly destinations = new Map<string, DestinationTally>();
  readonly endpoints = new Map<string, EndpointTally>();
  private readonly storeTime: () => number;

  /** @param storeTime - milliseconds, as claims have them */
  constructor(storeTime: () => number) {
    this.storeTime = storeTime;
  }

  /** @param counts - deliveries by destination */
  accepted(counts: ReadonlyMap<string, number>): void {
    for (const [name, count] of counts) this.destination(name).accepted += count;
  }

  settled({ claim, verdict: { kind }, attempts }: Settlement): void {
    const tally = this.destination(claim.destination);
    tally.verdicts[kind] += 1;
    if (kind === 'delivered') tally.took.add(Math.max(0, this.storeTime() - claim.acceptedAt));
    for (const { endpoint, outcome, ms } of attempts) {
      let at = this.endpoints.get(endpoint);
      if (at === undefined) {
        at = new EndpointTally(claim.destination);
        this.endpoints.set(endpoint, at);
      }
      const place = OUTCOMES.indexOf(outcome);
      at.outcomes[place] = (at.outcomes[place] as number) + 1;
      if (outcome !== 'skipped') at.took.add(ms);
    }
  }

  private destination(name: string): DestinationTally {
    let tally = this.destinations.get(name);
    if (tally === undefined) {
      tally = new DestinationTally();
      this.destinations.set(name, tally);
    }
    return tally;
  }
}
