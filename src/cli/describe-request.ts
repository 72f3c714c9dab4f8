import pc from 'picocolors';
import type { Captured } from './capture.ts';

/** Headers that say nothing about the message. */
const PLUMBING = new Set(['host', 'connection', 'content-length', 'transfer-encoding', 'accept-encoding', 'accept']);

/** A request for people: a line of summary, the headers, the body. */
export function describeRequest(request: Captured, colour: boolean): string {
  const { green, red, dim, bold } = pc.createColors(colour);
  const good = request.signature === 'verified' || request.signature === 'unsigned';
  const signature = good ? green(request.signature) : red(request.signature);
  const status = request.status < 400 ? green(String(request.status)) : red(String(request.status));
  const head = `${dim(request.at)} ${bold(`${request.method} ${request.path}`)}  ${signature} → ${status}`;
  const headers = Object.entries(request.headers)
    .filter(([name]) => !PLUMBING.has(name))
    .map(([name, value]) => dim(`  ${name}: ${value}`));
  return [head, ...headers, indent(bodyText(request.body))].join('\n');
}

function bodyText(body: unknown): string {
  return typeof body === 'string' ? body : JSON.stringify(body, null, 2);
}

function indent(text: string): string {
  return text.replace(/^/gm, '  ');
}
