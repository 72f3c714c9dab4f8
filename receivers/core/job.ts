import type { Log } from '../options.ts';
import { bytesOf } from '../parse/bytes.ts';
import type { Parsed } from '../parse/messages.ts';
import { type Deadlines, Timed } from './deadlines.ts';
import { Linked } from './linked.ts';
import * as reply from './reply.ts';
import { OpenRequest } from './request.ts';

/** Waits for the answers to messages. A promise or a closure for each would cost as much as a signature. */
export interface Asker {
  /** @param index - the position of the message among those of the asker */
  answered(answer: reply.Reply, index: number): void;
}

/** Replaces the request that a finished job has released. */
const noRequest = new OpenRequest({ rawBody: bytesOf(''), url: '', key: undefined, secret: undefined });
const noMessage: Parsed = { ok: false, reason: 'empty_body', detail: 'it was answered' };

/** A message that is being handled or waiting for its turn. */
export class Job extends Linked {
  parsed: Parsed;
  request: OpenRequest;
  readonly log: Log;
  /** The answer to give, once it is known. */
  answer: reply.Reply | undefined;
  /** The next change of the same name. */
  next: Job | undefined;
  /** Start of an asynchronous handler, in milliseconds since 1970. */
  since: number | undefined;
  givenUp: ((job: Job) => void) | undefined;
  isGivenUp = false;
  hasEnded = false;
  #asker: Asker | undefined;
  #index = 0;
  /** Askers for repetitions of the message that arrived while it was handled. */
  #others: { readonly asker: Asker; readonly index: number }[] | undefined;

  constructor(parsed: Parsed, request: OpenRequest, log: Log) {
    super();
    this.parsed = parsed;
    this.request = request;
    this.log = log;
  }

  ask(asker: Asker, index: number): void {
    if (this.#asker === undefined) {
      this.#asker = asker;
      this.#index = index;
    } else if (this.#others === undefined) this.#others = [{ asker, index }];
    else this.#others.push({ asker, index });
  }

  /**
   * Answers, and releases everything. A `Map` whose entries are added and deleted leaves tables behind, which keep their
   * former contents alive until the next full collection. Half of a busy receiver's garbage was kept that way.
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

/** A request that waits for the answer to its single message, until the deadline. */
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
