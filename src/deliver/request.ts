import type { KeyObject } from 'node:crypto';
import { sign, signingKey } from '../../receivers/signature.ts';
import { signStandard, standardKey } from '../../receivers/standard.ts';
import { type Destination, type Endpoint, RESERVED_HEADERS } from '../destination.ts';

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
}

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
  };
}

/** A percent sign that encodes nothing stands for itself. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * The headers of one attempt. Signatures are over the very bytes that are sent (docs/wire.md).
 *
 * @param at - milliseconds since 1970, which Standard Webhooks sign
 */
export function attemptHeaders(prepared: PreparedEndpoint, deliveryId: string, body: Buffer, at: number): string[] {
  const headers = [...prepared.headers, 'idempotency-key', deliveryId];
  if (prepared.key) headers.push('x-signature', sign(body, prepared.key));
  if (prepared.standardKeys) {
    headers.push(...Object.entries(signStandard(body, prepared.standardKeys, { id: deliveryId, at })).flat());
  }
  return headers;
}
