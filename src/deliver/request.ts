import type { KeyObject } from 'node:crypto';
import { sign, signingKey } from '../../receivers/signature.ts';
import { signStandard, standardKey } from '../../receivers/verify/standard.ts';
import { type Destination, type Endpoint, RESERVED_HEADERS } from '../destination.ts';
import { batchId, type EnvelopeItem, envelope } from './envelope.ts';

/** An endpoint with everything that its requests share, prepared once. */
export interface PreparedEndpoint {
  readonly endpoint: Endpoint;
  readonly origin: string;
  readonly path: string;
  /** Header names, each followed by its value, including static ones; a delivery adds its own. */
  readonly headers: readonly string[];
  /** Key of `X-Signature`; null without one. */
  readonly key: KeyObject | null;
  /** Keys of the Standard Webhooks signatures; null without them. */
  readonly standardKeys: readonly KeyObject[] | null;
  /** Secrets to hide if an answer repeats them, longest first. */
  readonly secrets: readonly string[];
}

/** Shorter ones occur in any text. */
const SHORTEST_SECRET = 6;

export function prepareEndpoint(endpoint: Endpoint, destination: Destination, serviceName: string): PreparedEndpoint {
  const url = new URL(endpoint.url);
  const own = Object.entries(endpoint.headers).filter(([name]) => !RESERVED_HEADERS.has(name.toLowerCase()));
  if (url.username !== '' && !own.some(([name]) => name.toLowerCase() === 'authorization')) {
    const credentials = `${decoded(url.username)}:${decoded(url.password)}`;
    own.push(['authorization', `Basic ${Buffer.from(credentials).toString('base64')}`]);
  }
  const { secrets, signing = 'x-signature' } = destination;
  const [secret] = secrets;
  return {
    endpoint,
    origin: url.origin,
    path: url.pathname + url.search,
    headers: ['user-agent', `${serviceName}/1.0`, 'content-type', 'application/json', ...own.flat()],
    key: secret === undefined || signing === 'standard' ? null : signingKey(secret),
    standardKeys: secret === undefined || signing === 'x-signature' ? null : secrets.map(standardKey),
    secrets: secretsIn([
      ...secrets,
      ...own.flatMap(([, value]) => [value, lastWord(value)]),
      ...secretsOfUrl(url, endpoint),
    ]),
  };
}

function secretsIn(texts: readonly string[]): readonly string[] {
  const secrets = new Set(texts.filter((text) => text.length >= SHORTEST_SECRET));
  return [...secrets].toSorted((a, b) => b.length - a.length);
}

/** Secrets of a URL, both encoded and decoded. */
function secretsOfUrl({ password, pathname, search, searchParams }: URL, { isSecret = false }: Endpoint): string[] {
  const encoded = search.split('&').map((part) => part.slice(part.indexOf('=') + 1));
  return [password, decoded(password), ...encoded, ...searchParams.values(), isSecret ? pathname : ''];
}

/** The token of `Bearer TOKEN`. */
const lastWord = (text: string) => text.slice(text.lastIndexOf(' ') + 1);

/** Decodes a URL part; a percent sign that encodes nothing stands for itself. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

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

/** The request of several deliveries: the body has their keys, so there is no Idempotency-Key. */
export function batchRequest(prepared: PreparedEndpoint, items: readonly EnvelopeItem[], wallTime: () => number) {
  const body = envelope(items, wallTime());
  const headers = [...prepared.headers];
  addSignatures(headers, prepared, { id: () => batchId(items), body, wallTime });
  const { origin, path, secrets } = prepared;
  return { origin, path, headers, body, secrets, readsAnswer: true };
}

/** Signs the bytes that are sent (docs/wire.md). Standard Webhooks also sign the time and an id made for them. */
function addSignatures(
  headers: string[],
  { key, standardKeys }: PreparedEndpoint,
  { id, body, wallTime }: { readonly id: () => string; readonly body: Buffer; readonly wallTime: () => number },
): void {
  if (key) headers.push('x-signature', sign(body, key));
  if (standardKeys)
    headers.push(...Object.entries(signStandard(body, standardKeys, { id: id(), at: wallTime() })).flat());
}
