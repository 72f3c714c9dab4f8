import type { KeyObject } from 'node:crypto';
import { sign, signingKey } from '../../receivers/signature.ts';
import { signStandard, standardKey } from '../../receivers/standard.ts';
import { type Destination, type Endpoint, RESERVED_HEADERS } from '../destination.ts';
import { batchId, type EnvelopeItem, envelope } from './envelope.ts';

/** What is posted to one endpoint for any delivery, prepared once. */
export interface PreparedEndpoint {
  readonly endpoint: Endpoint;
  readonly origin: string;
  readonly path: string;
  /** Header names and values in turn, static ones included; those of a delivery are added. */
  readonly headers: readonly string[];
  /** Makes `X-Signature`; null where there is none. */
  readonly key: KeyObject | null;
  /** Each makes a signature of Standard Webhooks; null where there is none. */
  readonly standardKeys: readonly KeyObject[] | null;
  /** What an answer may repeat and nobody may read there, the longest first. */
  readonly secrets: readonly string[];
}

/** Shorter ones are in any text. */
const SHORTEST_SECRET = 6;

export function prepareEndpoint(endpoint: Endpoint, destination: Destination, serviceName: string): PreparedEndpoint {
  const url = new URL(endpoint.url);
  const headers = ['user-agent', `${serviceName}/1.0`, 'content-type', 'application/json'];
  for (const [name, value] of Object.entries(endpoint.headers)) {
    if (!RESERVED_HEADERS.has(name.toLowerCase())) headers.push(name, value);
  }
  if (url.username !== '' && !headers.some((name) => name.toLowerCase() === 'authorization')) {
    const credentials = `${decoded(url.username)}:${decoded(url.password)}`;
    headers.push('authorization', `Basic ${Buffer.from(credentials).toString('base64')}`);
  }
  const { secrets, signing = 'x-signature' } = destination;
  const [secret] = secrets;
  return {
    endpoint,
    origin: url.origin,
    path: url.pathname + url.search,
    headers,
    key: secret === undefined || signing === 'standard' ? null : signingKey(secret),
    standardKeys: secret === undefined || signing === 'x-signature' ? null : secrets.map(standardKey),
    secrets: secretsOf(url, endpoint, [...secrets, ...headers.slice(PUBLIC_HEADERS)]),
  };
}

/** Names and values of the headers that anybody may see. */
const PUBLIC_HEADERS = 4;

function secretsOf(url: URL, { isSecret = false }: Endpoint, given: readonly string[]): readonly string[] {
  const inUrl = [url.password, decoded(url.password), ...url.searchParams.values(), isSecret ? url.pathname : ''];
  // Of `Bearer TOKEN` the token alone, too.
  const words = [...given, ...inUrl].flatMap((text) => [text, ...text.split(' ')]);
  const secrets = new Set(words.filter((text) => text.length >= SHORTEST_SECRET));
  return [...secrets].toSorted((a, b) => b.length - a.length);
}

/** A percent sign that encodes nothing stands for itself. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The request of one delivery by itself. */
export function singleRequest(
  prepared: PreparedEndpoint,
  { id, body }: { id: string; body: Buffer },
  wallTime: () => number,
) {
  const headers = [...prepared.headers, 'idempotency-key', id];
  addSignatures(headers, prepared, { id: () => id, body, wallTime });
  const { origin, path, secrets } = prepared;
  return { origin, path, headers, body, secrets };
}

/** The request of several deliveries: their keys are in the body, so there is no Idempotency-Key. */
export function batchRequest(prepared: PreparedEndpoint, items: readonly EnvelopeItem[], wallTime: () => number) {
  const body = envelope(items, wallTime());
  const headers = [...prepared.headers];
  addSignatures(headers, prepared, { id: () => batchId(items), body, wallTime });
  const { origin, path, secrets } = prepared;
  return { origin, path, headers, body, secrets, readsAnswer: true };
}

/**
 * Signs the very bytes that are sent (docs/wire.md). Standard Webhooks sign an id, which is only made for them, and the time, too.
 */
function addSignatures(
  headers: string[],
  { key, standardKeys }: PreparedEndpoint,
  { id, body, wallTime }: { readonly id: () => string; readonly body: Buffer; readonly wallTime: () => number },
): void {
  if (key) headers.push('x-signature', sign(body, key));
  if (standardKeys)
    headers.push(...Object.entries(signStandard(body, standardKeys, { id: id(), at: wallTime() })).flat());
}
