import type { ClientClock } from './clock.ts';

/** Largest request body in bytes. */
export const MAX_BATCH_BYTES = 500_000;
/** Most messages in one request. */
export const MAX_BATCH_COUNT = 2_500;

export type RequestBody = Uint8Array | string;

/** The messages of one request. */
export interface SentBatch {
  /** Time at which its first message was queued, or restored from the spool, in milliseconds since 1970. */
  readonly since: number;
  readonly count: number;
  /** Bytes of its messages with their separators. */
  readonly bytes: number;
  /**
   * Adds a message unless the request would become too large.
   *
   * @param bytes size of the message, separator included
   * @returns false if the batch has no room
   */
  add(text: string, bytes: number): boolean;
  /** The request body, valid until the next call. From the first call on, the batch accepts no more messages. */
  body(sentAt: string): RequestBody;
  /** The messages as they are sent, for reports. */
  messages(): Record<string, unknown>[];
}

/** The service's answer, or the error if there is none. */
export type ServiceAnswer = { status: number; retryAfter: string | undefined; body: string } | { error: Error };

export interface Transport {
  /** Sends one body. Never rejects. */
  post(body: RequestBody): Promise<ServiceAnswer>;
  /** Ends the request in flight, as failed, and closes the connection. */
  close(): void;
  /**
   * Called when the page ends. Sends as many messages as can outlive the page.
   *
   * @returns number of messages sent, from the first on
   */
  handOver?(messages: Record<string, unknown>[]): number;
}

/** A log function like those of the package `debug`. */
export interface DebugLog {
  (format: string, ...values: unknown[]): void;
  readonly enabled: boolean;
}

/** The part of a client that handles the end of the process or page. */
export interface Exiting {
  /** The process has nothing left to do: send the queue. The process may go on once that is settled. */
  finish(): Promise<unknown>;
  /** The process ends now: report the lost messages. */
  abandon(): void;
  /** The page is hidden, and may not come back: send the queue. */
  hurry(): void;
  /**
   * The page ends now: hand over all messages that are not in flight.
   *
   * @param isFinal true if messages that the browser doesn't accept are lost
   */
  part(isFinal: boolean): void;
}

export interface TransportSettings {
  endpoint: URL;
  requestTimeout: number;
  clock: ClientClock;
}

/** Keeps queued messages beyond the life of the process. */
export interface Keeper {
  /** Stores one message, before the call that queued it returns. */
  append(batch: SentBatch, text: string): void;
  /** Removes a settled batch. */
  forget(batch: SentBatch): void;
  /** Leaves unsettled messages to the next client. */
  release(): void;
}

/** Messages left by an earlier client, and the keeper of new ones. */
export interface KeptMessages {
  keeper: Keeper;
  batches: SentBatch[];
  /** Messages that were cut off, by a full disk or a loss of power. */
  damaged: number;
}

/** Differences between Node and platforms that have only `fetch`. */
export interface Platform {
  readonly clock: ClientClock;
  readonly log: DebugLog;
  /** True if timers and requests end with the host's request that made them, as on Cloudflare Workers. */
  readonly isPerRequest?: boolean;
  /** The endpoint if none is configured. */
  defaultEndpoint(): string | undefined;
  /** Bytes of UTF-8. */
  byteLength(text: string): number;
  /** @param spent a settled batch whose memory may be reused */
  newBatch(since: number, writeKey: string, spent?: SentBatch): SentBatch;
  transport(writeKey: string, settings: TransportSettings): Transport;
  /** Keeps messages in a folder; undefined if the platform has no folders. */
  openSpool?(folder: string, writeKey: string, now: number): KeptMessages;
  /** Notifies the client of the end, until {@link Platform.unguard}. */
  guard(client: Exiting): void;
  unguard(client: Exiting): void;
  /** @param isEnding true if the event loop has no further pass */
  warn(text: string, isEnding?: boolean): void;
}
