import type { Log } from '../options.ts';
import { bytesOf } from '../parse/bytes.ts';
import type { Parsed } from '../parse/messages.ts';
import { type Deadlines, Timed } from './deadlines.ts';
import { HeldRequest } from './leases.ts';
import * as reply from './reply.ts';
import { OpenRequest } from './request.ts';

/** Waits for the answers to messages. By its method: a promise or a closure for each would cost as much as a signature. */
export interface Asker {
  /** @param index - the place of the message among those that it asked for */
  answered(answer: reply.Reply, index: number): void;
}

/** In place of what a job has let go of. */
const noRequest = new OpenRequest({ rawBody: bytesOf(''), url: '', key: undefined, secret: undefined });
const noMessage: Parsed = { ok: false, reason: 'empty_body', detail: 'it was answered' };

/** A message that is being handled, or waits for its turn. */
export class Job extends HeldRequest {
  parsed: Parsed;
  /** The answer to give, as far as that is known. */
  answer: reply.Reply | undefined;
  /** The change of the same name that comes after it. */
  next: Job | undefined;
  #asker: Asker | undefined;
  #index = 0;
  /** Those that asked for the same message while it was handled. */
  #others: { readonly asker: Asker; readonly index: number }[] | undefined;

  constructor(parsed: Parsed, request: OpenRequest, log: Log) {
    super(request, log);
    this.parsed = parsed;
  }

  ask(asker: Asker, index: number): void {
    if (this.#asker === undefined) {
      this.#asker = asker;
      this.#index = index;
    } else if (this.#others === undefined) this.#others = [{ asker, index }];
    else this.#others.push({ asker, index });
  }

  /**
   * Answers, and lets go of everything. A `Map` whose entries come and go leaves tables behind, which keep all that was
   * ever in them alive until the next full collection. Half of a busy receiver's garbage went there.
   */
  end(answer: reply.Reply): void {
    const asker = this.#asker;
    const others = this.#others;
    this.#asker = undefined;
    this.#others = undefined;
    this.next = undefined;
    this.parsed = noMessage;
    this.request = noRequest;
    asker?.answered(answer, this.#index);
    if (others !== undefined) for (const other of others) other.asker.answered(answer, other.index);
  }
}

/** A request that waits for the answer to its one message, until the deadline. */
export class WaitingRequest extends Timed implements Asker {
  readonly #job: Job;
  readonly #waits: Deadlines;
  readonly #done: (answer: reply.Reply) => void;

  constructor(at: number, job: Job, waits: Deadlines, done: (answer: reply.Reply) => void) {
    super(at);
    this.#job = job;
    this.#waits = waits;
    this.#done = done;
  }

  answered(answer: reply.Reply): void {
    if (this.#waits.unwatch(this)) this.#done(answer);
  }

  expired(): void {
    this.#job.request.expire();
    this.#done(reply.late);
  }
}
