import pc from 'picocolors';
import type { Captured } from '../capture.ts';
import { count } from './terminal.ts';

/** Headers that say nothing about the message. */
const PLUMBING = new Set(['host', 'connection', 'content-length', 'transfer-encoding', 'accept-encoding', 'accept']);

/** A request for people: a line of summary, the headers, the body. */
export function describeRequest(request: Captured, colour: boolean): string {
  const { green, red, dim, bold } = pc.createColors(colour);
  const good = request.signature === 'verified' || request.signature === 'unsigned';
  const signature = good ? green(request.signature) : red(request.signature);
  const status = request.status < 400 ? green(String(request.status)) : red(String(request.status));
  const size = batchSize(request.body);
  const batch = size === null ? '' : `, ${count(size, 'message')} in a batch`;
  const head = `${dim(request.at)} ${bold(`${request.method} ${request.path}`)}  ${signature} → ${status}${batch}`;
  const headers = Object.entries(request.headers)
    .filter(([name]) => !PLUMBING.has(name))
    .map(([name, value]) => dim(`  ${name}: ${value}`));
  return [head, ...headers, indent(bodyText(request.body))].join('\n');
}

/** Messages in the envelope of a batch; null where it is none. */
function batchSize(body: unknown): number | null {
  const { batch = null } = typeof body === 'object' && body !== null ? (body as { readonly batch?: unknown }) : {};
  return Array.isArray(batch) ? batch.length : null;
}

function bodyText(body: unknown): string {
  return typeof body === 'string' ? body : JSON.stringify(body, null, 2);
}

function indent(text: string): string {
  return text.replace(/^/gm, '  ');
}
