import { createHash } from 'node:crypto';
import type { Annotations } from './about.ts';
import type { IpMode } from './kernel/ip.ts';
import type { MessageType } from './message-types.ts';

export interface BatchOptions {
  /** Most messages in a request. */
  readonly size: number;
  /** Milliseconds that a message waits for others. */
  readonly wait: number;
}

/** A URL that deliveries are posted to, with its static headers. */
export interface Endpoint {
  /** Stable name of this URL within its destination; safe to log. */
  readonly id: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Absent if each delivery is a request. */
  readonly batch?: BatchOptions;
  /** True if anyone who knows its path may post to it. The path is not shown then. */
  readonly isSecret?: boolean;
}

/** Headers that static ones can't replace, in lower case: ours, and those of the connection. */
export const RESERVED_HEADERS: ReadonlySet<string> = new Set([
  'user-agent',
  'content-type',
  'x-signature',
  'idempotency-key',
  'webhook-id',
  'webhook-timestamp',
  'webhook-signature',
  'content-length',
  'content-encoding',
  'host',
  'connection',
  'keep-alive',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade',
  'expect',
]);

/** Ways to sign requests: `X-Signature`, the headers of Standard Webhooks, or both. */
export const SIGNINGS = ['x-signature', 'standard', 'both'] as const;
type SigningScheme = (typeof SIGNINGS)[number];

/** Says if a destination gets the members of an audience that is new to it. */
export const BACKFILL_MODES = ['send', 'skip'] as const;
type BackfillMode = (typeof BACKFILL_MODES)[number];

/** The filters of a destination. An absent one lets everything pass. */
export interface Wants {
  readonly types?: readonly MessageType[];
  /** Names of track events; other kinds pass. */
  readonly events?: readonly string[];
  /** Keys of audiences and computed traits. */
  readonly audiences?: readonly string[];
}

/** The form of a membership change on the wire. */
export type MembershipForm = 'identify' | 'track';
/** The forms that a destination gets. */
export const MEMBERSHIP_MODES = ['identify', 'track', 'both'] as const;
export type MembershipMode = (typeof MEMBERSHIP_MODES)[number];

/** Forms of the columns that are sent, by name. `sha256`: a hash of the trimmed, lower-case text. */
export type ColumnChoice = Readonly<Record<string, 'plain' | 'sha256'>>;

/** A "Webhooks" setting: 1 to 5 endpoints, a shared secret, the sources connected to it. */
export interface Destination extends Annotations {
  readonly name: string;
  readonly enabled: boolean;
  readonly sources: readonly string[];
  /** Ignored by deletion notices. */
  readonly wants?: Wants;
  /** `skip` if it takes only later changes of an audience that is new to it; `send` unless given. */
  readonly backfill?: BackfillMode;
  /** The form of membership changes; `identify` if absent. Events are not filtered by `types` and `events`. */
  readonly membership?: MembershipMode;
  /** All columns, plain, if absent. */
  readonly columns?: ColumnChoice;
  /** The first one signs; with Standard Webhooks, each of them does. Empty if requests are unsigned. */
  readonly secrets: readonly string[];
  /** `x-signature` unless given. */
  readonly signing?: SigningScheme;
  readonly endpoints: readonly Endpoint[];
  /** A message is delivered if any endpoint accepts it (the spec's rule), or only if all do. */
  readonly require: 'any' | 'all';
  /** Deliveries started per second at most; null means no limit. */
  readonly ratePerSecond: number | null;
}

/** A sender of messages, authenticated by its write key. */
export interface Source {
  readonly id: string;
  readonly writeKey: string;
  readonly enabled: boolean;
  /** Collection requests per second at most; absent means no limit. */
  readonly ratePerSecond?: number;
  /** Treatment of people's IP addresses; `keep` if absent. */
  readonly ip?: IpMode;
}

/** True if Rollcall itself sends as this source, to people's hooks. The colon keeps its name apart from configured ones. */
export function isOwnSource(source: string): boolean {
  return source.startsWith('rollcall:');
}

/** The stable id of an endpoint: it follows the URL, so that a changed URL starts with a clean record. */
export function endpointId(destination: string, url: string): string {
  return createHash('sha256').update(`${destination}\n${url}`).digest('hex').slice(0, 16);
}

/** A URL as it may be shown: without user, password, query and fragment. */
export function redactUrl(url: string): string {
  const parsed = URL.parse(url);
  return parsed ? `${parsed.protocol}//${parsed.host}${parsed.pathname}` : '(invalid URL)';
}

export function shownUrl({ url, isSecret = false }: Endpoint): string {
  return isSecret ? `${new URL(url).origin}/…` : redactUrl(url);
}
