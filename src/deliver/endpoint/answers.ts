/** An attempt's failure, as far as it says something about the endpoint. */
export type EndpointFailure =
  /** An answer that may be the message's fault: 5xx but 503, 408, 425. */
  | 'fault'
  /** 429 or 503: the endpoint reports overload. */
  | 'overload'
  /** No answer in time, or the connection broke. */
  | 'silence'
  /** No connection was made. */
  | 'unreachable';

/** Minimum number of answers for a share to mean something. */
const ENOUGH = 20;
/** Shares that are too high: of overload signs, and of failures of any kind. */
const OVERLOADED = 0.1;
const MOST = 0.5;
/** Number of last answers that count, or the window's size if that is larger; up to twice as many. */
const MEMORY = 50;

/** Recent answers of an endpoint: they show if it is overloaded or if only a few messages fail. */
export class Answers {
  private count = 0;
  /** Overload signs, and other failures. */
  private signs = 0;
  private faults = 0;

  /** @param size - attempts that the window holds: fewer answers than that are less than a round */
  add(failure: EndpointFailure | null, size: number): void {
    this.count += 1;
    if (failure === 'fault') this.faults += 1;
    else if (failure !== null) this.signs += 1;
    if (this.count < 2 * Math.max(MEMORY, size)) return;
    this.count /= 2;
    this.signs /= 2;
    this.faults /= 2;
  }

  get areFew(): boolean {
    return this.count < ENOUGH;
  }

  /** True if, beyond chance, more than a tenth are overload signs or most are failures. */
  get areTooBad(): boolean {
    const { count, signs, faults } = this;
    if (this.areFew) return false;
    return exceeds(signs, count, OVERLOADED) || exceeds(signs + faults, count, MOST);
  }

  clear(): void {
    this.count = 0;
    this.signs = 0;
    this.faults = 0;
  }
}

/** Tests by two standard deviations: if one answer in twenty fails by chance, a few dozen often have a tenth. */
function exceeds(part: number, count: number, share: number): boolean {
  return part - count * share > 2 * Math.sqrt(count * share * (1 - share));
}
