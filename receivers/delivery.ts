import type { Delivery } from './options.ts';

export interface DeliveryFields {
  rawBody: Buffer;
  url: string;
  key: string | undefined;
  secret: number | undefined;
}

/** A delivery whose AbortSignal is only made for handlers that look at it. */
export class OpenDelivery implements Delivery {
  readonly rawBody: Buffer;
  readonly url: string;
  readonly key: string | undefined;
  readonly secret: number | undefined;
  expired = false;
  #controller: AbortController | undefined;

  constructor({ rawBody, url, key, secret }: DeliveryFields) {
    this.rawBody = rawBody;
    this.url = url;
    this.key = key;
    this.secret = secret;
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
