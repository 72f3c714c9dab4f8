/** How an attempt failed, as far as that speaks of the endpoint. */
export type EndpointFailure =
  /** An answer that may be the message's fault: 5xx but 503, 408, 425. */
  | 'fault'
  /** 429 or 503: the endpoint says that it has too much to do. */
  | 'overload'
  /** No answer in time, or the connection broke. */
  | 'silence'
  /** There was no connection at all. */
  | 'unreachable';

/** Fewer answers than this say nothing about a share. */
const ENOUGH = 20;
/** Shares that are too many: of signs of overload, and of failures of any kind. */
const OVERLOADED = 0.1;
const MOST = 0.5;
/** So many of the last answers count, or the window's size if that is more; up to twice as many. */
const MEMORY = 50;

/** Recent answers of an endpoint, which show whether it is overloaded or only a few messages fail. */
export class Answers {
  private count = 0;
  /** Signs of overload, and other failures. */
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

  /** Too few to tell a share by. */
  get areFew(): boolean {
    return this.count < ENOUGH;
  }

  /** More than a tenth are signs of overload, or most are failures, and not by chance. */
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

/** By two standard deviations: where one answer in twenty fails by chance, a few dozen of them often have a tenth. */
function exceeds(part: number, count: number, share: number): boolean {
  return part - count * share > 2 * Math.sqrt(count * share * (1 - share));
}
