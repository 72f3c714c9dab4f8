import type { ReceivedRequest } from '../options.ts';
import type { Batch } from '../parse/envelope.ts';
import type { Opening } from '../store.ts';
import type { SenderKey } from '../verify/verifier.ts';

/** A verified message on its way to the handlers. */
export interface RequestFields {
  /** The bytes of the message. */
  readonly rawBody: Buffer;
  readonly url: string;
  readonly key: string | undefined;
  readonly secret: number | undefined;
  /** The keys that copies of it would have without some of its signatures. */
  readonly others?: readonly SenderKey[] | undefined;
}

/** A verified request. */
export interface VerifiedFields extends RequestFields {
  /** Identifies the secret that matched; empty if no secret is set. */
  readonly sender: string;
  /** Time of the request's arrival, by the receiver's clock. */
  readonly since: number;
}

/** One message of a batch, verified by the batch's signature. */
export class BatchItem implements RequestFields {
  readonly url: string;
  readonly key: string | undefined;
  readonly secret: number | undefined;
  readonly #request: VerifiedFields;
  readonly #batch: Batch;
  readonly #index: number;

  /** @param request - the request of the whole batch */
  constructor(request: VerifiedFields, batch: Batch, index: number) {
    this.url = request.url;
    this.key = batch.keys[index];
    this.secret = request.secret;
    this.#request = request;
    this.#batch = batch;
    this.#index = index;
  }

  get others(): readonly SenderKey[] | undefined {
    const { others, sender } = this.#request;
    const { key } = this;
    if (others === undefined || key === undefined) return undefined;
    return others.filter((each) => each.sender !== sender).map((each) => ({ sender: each.sender, key }));
  }

  /** The bytes that it would have had on its own; made only for handlers that read them. */
  get rawBody(): Buffer {
    return this.#batch.bytes(this.#index);
  }
}

/** A request being handled. Its AbortSignal is made only for handlers that read it. */
export class OpenRequest implements ReceivedRequest {
  readonly url: string;
  readonly key: string | undefined;
  readonly secret: number | undefined;
  isExpired = false;
  opening: Opening | undefined;
  readonly #fields: RequestFields;
  #controller: AbortController | undefined;

  constructor(fields: RequestFields) {
    this.url = fields.url;
    this.key = fields.key;
    this.secret = fields.secret;
    this.#fields = fields;
  }

  get rawBody(): Buffer {
    return this.#fields.rawBody;
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.isExpired) this.#controller.abort();
    return this.#controller.signal;
  }

  /** The failure of a handler that returns after it could know that its signal had aborted: it may have stopped halfway. */
  get abandonment(): Error | undefined {
    if (!this.isExpired || this.#controller === undefined) return undefined;
    return new Error(
      'the handler returned after its signal had aborted, so it is not done: use signal.throwIfAborted()',
    );
  }

  /** Call when nobody waits for the outcome any more, or when the lease was lost. */
  expire(): void {
    this.isExpired = true;
    this.#controller?.abort();
  }
}
