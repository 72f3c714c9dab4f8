import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import { verify } from '../../receivers/signature.ts';
import { type SignatureFault, type StandardFault, standardClaim } from '../../receivers/verify/headers.ts';
import { verifyStandard } from '../../receivers/verify/standard.ts';
import type { Clock } from '../kernel/clock.ts';
import type { ForwardedAnswer, ForwardedRequest } from './forward.ts';

export interface Captured {
  /** ISO 8601. */
  readonly at: string;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The parsed JSON, or the text if it is not JSON. */
  readonly body: unknown;
  readonly signature: 'verified' | 'unsigned' | SignatureFault | StandardFault;
  readonly status: number;
  /** With `forward`: what the app answered, and what it does wrong if it refuses a right signature. */
  readonly answer?: ForwardedAnswer | undefined;
}

interface CaptureOptions {
  /** Secrets to verify requests with. Without any, signatures are not checked. */
  readonly secrets: readonly string[];
  readonly bodyLimit: number;
  /** Milliseconds before each answer. */
  readonly delay: number;
  /** The status for a valid request. */
  readonly answer: () => number;
  /** Passes requests on to an app, whose answers are passed back. */
  readonly forward?: ((request: ForwardedRequest) => Promise<ForwardedAnswer>) | undefined;
  readonly onRequest: (request: Captured) => void;
  readonly clock: Clock;
}

/** A server that accepts any request, reports it and answers as configured. */
export function createCapture(options: CaptureOptions): Server {
  return createServer((request, response) => {
    receive(request, response, options).catch(() => request.destroy());
  });
}

async function receive(request: IncomingMessage, response: ServerResponse, options: CaptureOptions): Promise<void> {
  const at = new Date(options.clock.now()).toISOString();
  const raw = await read(request, options.bodyLimit);
  const signature = check(raw, request.headers, options.secrets);
  const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]));
  const { method = '', url: path = '' } = request;
  const isRight = signature === 'verified';
  const answer = raw === null ? undefined : await options.forward?.({ method, path, headers, body: raw, isRight });
  const status = answer?.status ?? statusFor(raw, signature, options);
  options.onRequest({ at, method, path, headers, body: raw === null ? null : parsed(raw), signature, status, answer });
  const own = { ...(raw === null && { connection: 'close' }), ...(answer?.type && { 'content-type': answer.type }) };
  const send = () => response.writeHead(status, own).end(answer?.body);
  if (options.delay === 0) send();
  else response.once('close', options.clock.after(options.delay, send));
}

/** The body, or null as soon as it exceeds the limit. */
async function read(request: IncomingMessage, limit: number): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    size += chunk.length;
    if (size > limit) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Every signature present must be right. Without any, `X-Signature` is reported as missing. */
function check(raw: Buffer | null, headers: IncomingHttpHeaders, secrets: readonly string[]): Captured['signature'] {
  if (secrets.length === 0 || raw === null) return 'unsigned';
  const text = (name: string) => (headers[name] === undefined ? undefined : String(headers[name]));
  const claim = text('webhook-signature') === undefined ? undefined : standardClaim(text);
  if (typeof claim === 'string') return claim;
  if (claim && verifyStandard(raw, claim, secrets).length === 0) return 'webhook_signature_mismatch';
  if (claim && text('x-signature') === undefined) return 'verified';
  const result = verify(raw, text('x-signature'), secrets);
  return result.ok ? 'verified' : result.reason;
}

function statusFor(raw: Buffer | null, signature: Captured['signature'], options: CaptureOptions): number {
  if (raw === null) return 413;
  return signature === 'verified' || signature === 'unsigned' ? options.answer() : 401;
}

function parsed(raw: Buffer): unknown {
  const text = raw.toString('utf8');
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
