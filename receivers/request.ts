import { bytesOf } from './bytes.ts';
import { itemsOf } from './messages.ts';
import type { ReceivedRequest } from './options.ts';
import type { Opening } from './store.ts';

export interface RequestFields {
  /** The bytes of the message. */
  readonly rawBody: Buffer;
  readonly url: string;
  readonly key: string | undefined;
  readonly secret: number | undefined;
}

/** A verified request on its way to the handlers. */
export interface VerifiedFields extends RequestFields {
  /** Names whoever knows the secret that matched; empty where no secret is set. */
  readonly sender: string;
  /** When the request came in, by the receiver's clock. */
  readonly since: number;
}

/** One message of a batch, verified by the signature of all. */
export class BatchItem implements VerifiedFields {
  readonly key: string | undefined;
  readonly #batch: BatchSource;
  readonly #index: number;

  constructor(batch: BatchSource, index: number, key: string | undefined) {
    this.key = key;
    this.#batch = batch;
    this.#index = index;
  }

  /** As it would have come alone; made only for handlers that look at it. */
  get rawBody(): Buffer {
    return this.#batch.bytesOf(this.#index);
  }

  get url(): string {
    return this.#batch.fields.url;
  }

  get secret(): number | undefined {
    return this.#batch.fields.secret;
  }

  get sender(): string {
    return this.#batch.fields.sender;
  }

  get since(): number {
    return this.#batch.fields.since;
  }
}

/** The request that brought a batch. */
export class BatchSource {
  readonly fields: VerifiedFields;
  #items: readonly unknown[] | undefined;

  /** @param items - the messages, where no handler gets them and could change them */
  constructor(fields: VerifiedFields, items?: readonly unknown[]) {
    this.fields = fields;
    this.#items = items;
  }

  bytesOf(index: number): Buffer {
    this.#items ??= itemsOf(this.fields.rawBody);
    return bytesOf(JSON.stringify(this.#items[index]));
  }
}

/** A request at work, whose AbortSignal is only made for handlers that look at it. */
export class OpenRequest implements ReceivedRequest {
  isExpired = false;
  opening: Opening | undefined;
  readonly #fields: RequestFields;
  #controller: AbortController | undefined;

  constructor(fields: RequestFields) {
    this.#fields = fields;
  }

  get rawBody(): Buffer {
    return this.#fields.rawBody;
  }

  get url(): string {
    return this.#fields.url;
  }

  get key(): string | undefined {
    return this.#fields.key;
  }

  get secret(): number | undefined {
    return this.#fields.secret;
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.isExpired) this.#controller.abort();
    return this.#controller.signal;
  }

  /** Nobody waits for the outcome any more, or the work is no longer this process's. */
  expire(): void {
    this.isExpired = true;
    this.#controller?.abort();
  }
}
