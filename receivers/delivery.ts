import type { Delivery } from './options.ts';

export interface DeliveryFields {
  /** The bytes of the message; of one in a batch they are made when a handler looks at them. */
  readonly rawBody: Buffer;
  readonly url: string;
  readonly key: string | undefined;
  readonly secret: number | undefined;
}

/** A delivery whose AbortSignal is only made for handlers that look at it. */
export class OpenDelivery implements Delivery {
  expired = false;
  readonly #fields: DeliveryFields;
  #controller: AbortController | undefined;

  constructor(fields: DeliveryFields) {
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
    if (this.expired) this.#controller.abort();
    return this.#controller.signal;
  }

  /** The sender waits no longer. */
  expire(): void {
    this.expired = true;
    this.#controller?.abort();
  }
}
