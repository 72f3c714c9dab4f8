import { callHost } from './call-host.ts';
import type { ClientClock } from './clock.ts';

/** A failed request that will be retried. */
export interface Retry {
  /** The cause, for people. */
  message: string;
  /** HTTP status of the answer, if there was one. */
  status?: number;
  /** Failed requests since the last success, this one included. */
  tries: number;
  /** Milliseconds since the first of these. */
  lasted: number;
  /** Milliseconds until the next try. */
  wait: number;
  /** Messages in the queue. */
  queued: number;
}

/** Bad answers in a row before a warning: fewer are no sign of a wrong endpoint. */
const ANSWERS_BEFORE_WARNING = 3;
const FIRST_PAUSE = 60_000;
const LONGEST_PAUSE = 60 * 60_000;

export interface OutageOptions {
  clock: ClientClock;
  endpoint: URL;
  onRetry: ((retry: Retry) => void) | undefined;
  warn: (text: string) => void;
}

/**
 * Reports an outage of the service: every failed try to `onRetry`, or else warnings, less and less often. Warns once
 * more when it is over.
 */
export class Outage {
  readonly #options: OutageOptions;
  readonly #where: string;
  #since = 0;
  #tries = 0;
  #nextWarning = 0;
  #pause = FIRST_PAUSE;
  #hasWarned = false;
  #last: { message: string; status?: number } | undefined;

  constructor(options: OutageOptions) {
    this.#options = options;
    // Without password and query.
    this.#where = options.endpoint.origin + options.endpoint.pathname;
  }

  /** The failure of the last request; undefined if it succeeded. */
  get last(): { message: string; status?: number } | undefined {
    return this.#last;
  }

  failed(failure: { message: string; status?: number }, wait: number, queued: number): void {
    const { clock, onRetry } = this.#options;
    const now = clock.now();
    if (this.#tries++ === 0) this.#since = now;
    const { message, status } = failure;
    this.#last = status === undefined ? { message } : { message, status };
    const retry: Retry = { ...this.#last, tries: this.#tries, lasted: now - this.#since, wait, queued };
    if (onRetry) this.#tell(onRetry, retry);
    else if (this.#isDue(retry, now)) this.#warn(retry, now);
  }

  /** Called when a request got through. */
  ended(): void {
    if (this.#tries === 0) return;
    const { clock, warn } = this.#options;
    if (this.#hasWarned) warn(`${this.#where} is reached again, after ${span(clock.now() - this.#since)}.`);
    this.#tries = 0;
    this.#last = undefined;
    this.#hasWarned = false;
    this.#pause = FIRST_PAUSE;
  }

  #isDue({ status, tries }: Retry, now: number): boolean {
    if (this.#hasWarned) return now >= this.#nextWarning;
    return status === undefined || tries >= ANSWERS_BEFORE_WARNING;
  }

  #warn({ message, tries, lasted, queued }: Retry, now: number): void {
    const again = tries === 1 ? 'Retrying' : `${tries} tries in ${span(lasted)}, still retrying`;
    const waiting = `${queued} ${queued === 1 ? 'message waits' : 'messages wait'}`;
    this.#options.warn(`${this.#where} can't be reached: ${message.replace(/\.$/, '')}. ${again}; ${waiting}.`);
    this.#hasWarned = true;
    this.#nextWarning = now + this.#pause;
    this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE);
  }

  #tell(onRetry: (retry: Retry) => void, retry: Retry): void {
    callHost(
      () => onRetry(retry),
      (why) => this.#options.warn(`onRetry threw: ${why}`),
    );
  }
}

function span(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}
