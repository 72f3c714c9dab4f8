import type { ClientType } from '../message-types.ts';
import type { RunProgress } from './runs.ts';

/** States of a send; `sending` is the only open one. */
export const SEND_STATES = ['sending', 'done', 'cancelled'] as const;

type SendState = (typeof SEND_STATES)[number];

/** The events of a send: those that one destination would have got in a span of time, had it been connected. */
export interface SendOrder {
  readonly destination: string;
  /** Times of receipt in milliseconds since 1970; `until` itself is not included. */
  readonly since: number;
  readonly until: number;
  readonly type: ClientType | null;
  /** Only tracks with this name. */
  readonly event: string | null;
  readonly source: string | null;
}

/** An order to send past events to one destination. Its deliveries are counted as those of a run with its id. */
export interface EventSend extends SendOrder {
  readonly id: string;
  readonly state: SendState;
  /** Number of events when it was ordered. */
  readonly total: number;
  /** Events queued so far. */
  readonly sent: number;
  /** Place in the log after the last queued event. */
  readonly cursor: string | null;
  readonly startedAt: number;
  readonly finishedAt: number | null;
}

/** A send, and what became of its deliveries. */
export interface SendStatus {
  readonly send: EventSend;
  readonly deliveries: RunProgress;
  /** Why nothing more is queued now; null if something is, or nothing is left. */
  readonly waitsFor: string | null;
}

export interface SendFilter {
  readonly open?: boolean;
  readonly before?: string;
  readonly limit: number;
}

export interface SendRecords {
  addSend(send: EventSend): Promise<void>;
  /** Ends an open send: from then on nothing more of it is accepted. False if it was over already. */
  endSend(id: string, state: Exclude<SendState, 'sending'>, at: number): Promise<boolean>;
  send(id: string): Promise<EventSend | null>;
  /** Newest first; with `before`, only older ones. */
  sends(filter: SendFilter): Promise<readonly EventSend[]>;
}
