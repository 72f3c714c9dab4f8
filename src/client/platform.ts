import type { ClientClock } from './clock.ts';

/** Largest request body in bytes. */
export const MAX_BATCH_BYTES = 500_000;
/** Most messages in one request. */
export const MAX_BATCH_COUNT = 2_500;

/** A request body: bytes or text. */
export type RequestBody = Uint8Array | string;

/** The messages of one request. */
export interface SentBatch {
  /** When its first message came, or came back from the spool, milliseconds since 1970. */
  readonly since: number;
  readonly count: number;
  /** Bytes of its messages with their separators. */
  readonly bytes: number;
  /**
   * Adds a message unless the request would become too large.
   *
   * @param bytes what it takes up, separator included
   * @returns false if it has no room
   */
  add(text: string, bytes: number): boolean;
  /** The request body, valid until the next call. From the first call on the batch takes no more messages. */
  body(sentAt: string): RequestBody;
  /** The messages as they are sent, for reports. */
  messages(): Record<string, unknown>[];
}

/** The service's answer, or why there is none. */
export type ServiceAnswer = { status: number; retryAfter: string | undefined; body: string } | { error: Error };

export interface Transport {
  /** Sends one body. Never rejects. */
  post(body: RequestBody): Promise<ServiceAnswer>;
  /** Ends the request in flight, as failed, and closes the connection. */
  close(): void;
  /**
   * The page ends: sends what it can so that it outlives the page.
   *
   * @returns how many of the messages, from the first on
   */
  handOver?(messages: Record<string, unknown>[]): number;
}

/** A function that prints, as those of the package `debug`. */
export interface DebugLog {
  (format: string, ...values: unknown[]): void;
  readonly enabled: boolean;
}

/** A client as far as the end of the process, or of the page, concerns it. */
export interface Exiting {
  /** The process has nothing left to do: send what is queued. It may go on once that is settled. */
  finish(): Promise<unknown>;
  /** The process ends now: say what is lost. */
  abandon(): void;
  /** The page is hidden, and may not come back: send what is queued. */
  hurry(): void;
  /**
   * The page ends now: hand over what is not under way.
   *
   * @param isFinal whether what the browser doesn't take is lost
   */
  part(isFinal: boolean): void;
}

/** The settings that a transport needs. */
export interface TransportSettings {
  endpoint: URL;
  requestTimeout: number;
  clock: ClientClock;
}

/** Keeps what is queued beyond the life of the process. */
export interface Keeper {
  /** One message, before the call that queued it returns. */
  append(batch: SentBatch, text: string): void;
  /** The batch needs no keeping any more. */
  forget(batch: SentBatch): void;
  /** Leaves what is not settled to the next client. */
  release(): void;
}

/** Messages that an earlier client left, and the place that keeps new ones from now on. */
export interface KeptMessages {
  keeper: Keeper;
  batches: SentBatch[];
  /** Messages that were cut off, by a full disk or a loss of power. */
  damaged: number;
}

/** Differences between Node and the places that have `fetch` and nothing else. */
export interface Platform {
  readonly clock: ClientClock;
  readonly log: DebugLog;
  /** Whether timers and requests end with the request of the host that made them, as on Cloudflare's Workers. */
  readonly isPerRequest?: boolean;
  /** Where to send to if nothing is said. */
  defaultEndpoint(): string | undefined;
  /** Bytes of UTF-8. */
  byteLength(text: string): number;
  /** @param spent one that is settled, whose memory may be used again */
  newBatch(since: number, writeKey: string, spent?: SentBatch): SentBatch;
  transport(writeKey: string, settings: TransportSettings): Transport;
  /** Keeps messages in a folder; undefined where there are no folders. */
  openSpool?(folder: string, writeKey: string, now: number): KeptMessages;
  /** Tells the client of the end until {@link Platform.unguard}. */
  guard(client: Exiting): void;
  unguard(client: Exiting): void;
  /** @param isEnding the process has no next pass of the event loop */
  warn(text: string, isEnding?: boolean): void;
}
