import type { Captured } from '../capture.ts';
import { count, painter } from './terminal.ts';

const PLUMBING = new Set(['host', 'connection', 'content-length', 'transfer-encoding', 'accept-encoding', 'accept']);

/** Characters of an app's answer that are shown. */
const ANSWER_WIDTH = 300;

export function describeRequest(request: Captured, colour: boolean): string {
  const { green, red, dim, bold } = painter(colour);
  const good = request.signature === 'verified' || request.signature === 'unsigned';
  const signature = good ? green(request.signature) : red(request.signature);
  const status = request.status < 400 ? green(String(request.status)) : red(String(request.status));
  const size = batchSize(request.body);
  const batch = size === null ? '' : `, ${count(size, 'message')} in a batch`;
  const head = `${dim(request.at)} ${bold(`${request.method} ${request.path}`)}  ${signature} → ${status}${batch}`;
  const headers = Object.entries(request.headers)
    .filter(([name]) => !PLUMBING.has(name))
    .map(([name, value]) => dim(`  ${name}: ${value}`));
  const { answer } = request;
  const answered =
    answer === undefined ? [] : [dim(`  answered ${answer.status} ${answer.body.slice(0, ANSWER_WIDTH)}`.trimEnd())];
  if (answer?.advice) answered.push(red(`  ${answer.advice}.`));
  return [head, ...headers, indent(bodyText(request.body)), ...answered].join('\n');
}

/** Number of messages in a batch; null if the body is not a batch. */
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
