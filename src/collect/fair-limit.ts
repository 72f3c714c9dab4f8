/** Limits the work in progress. Beyond the limit, parties take turns, however much each of them has waiting. */
export class FairLimit {
  private readonly maxWeight: number;
  private weight = 0;
  /** Work by party, in the order of their turns. */
  private readonly waiting = new Map<string, WaitingWork[]>();

  constructor(maxWeight: number) {
    this.maxWeight = maxWeight;
  }

  pass<T>(party: string, weight: number, work: () => Promise<T>): Promise<T> {
    if (this.waiting.size > 0 || !this.hasRoom(weight)) {
      return this.wait(party, weight).then(() => this.finished(weight, work()));
    }
    this.weight += weight;
    return this.finished(weight, work());
  }

  /** Holds only the promise of the work. */
  private async finished<T>(weight: number, working: Promise<T>): Promise<T> {
    try {
      return await working;
    } finally {
      this.weight -= weight;
      this.next();
    }
  }

  private wait(party: string, weight: number): Promise<void> {
    return new Promise((go) => {
      const queue = this.waiting.get(party);
      if (queue) queue.push({ weight, go });
      else this.waiting.set(party, [{ weight, go }]);
    });
  }

  private next(): void {
    for (const [party, queue] of this.waiting) {
      const first = queue[0] as WaitingWork;
      if (!this.hasRoom(first.weight)) return;
      this.weight += first.weight;
      queue.shift();
      this.waiting.delete(party);
      if (queue.length > 0) this.waiting.set(party, queue);
      first.go();
    }
  }

  /** Work that is heavier than the limit runs alone. */
  private hasRoom(weight: number): boolean {
    return this.weight === 0 || this.weight + weight <= this.maxWeight;
  }
}

interface WaitingWork {
  readonly weight: number;
  readonly go: () => void;
}
