#!/usr/bin/env node
import { existsSync, readFileSync } from 'node:fs';
import { setDefaultAutoSelectFamilyAttemptTimeout } from 'node:net';
import { parseArgs } from 'node:util';
import { type CaseResult, conformance, type Target } from './testing/conformance.ts';

const usage = `Tries a webhook receiver with good and bad requests and says what it gets wrong.

Usage: rollcall-receiver-check URL [--signing x-signature|standard|both] [--batches] [--log FILE] [--json]

The secret is that of the environment variable ROLLCALL_SECRET, or of --secret, which other users of this machine can see.

The requests carry made-up users and events: try a receiver whose handlers can take that.

WRONG is what loses messages, or takes forged ones. Advice is about requests that Rollcall does not send. --log names a
file to which the handler writes the messageId of each message that it handles: then repetitions and order are checked.

Exit codes: 0 nothing is wrong, 1 something is wrong or the URL can't be reached, 2 bad usage.`;

const SIGNINGS = ['x-signature', 'standard', 'both'] as const;

const isWeb = /^https?:\/\//i;

function options(): Target & { json: boolean } {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      secret: { type: 'string' },
      signing: { type: 'string', default: 'x-signature' },
      batches: { type: 'boolean', default: false },
      log: { type: 'string' },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) {
    console.log(usage);
    process.exit(0);
  }
  const [url] = positionals;
  if (positionals.length !== 1 || url === undefined || !isWeb.test(url) || !URL.canParse(url)) {
    throw new TypeError('give one URL, which begins with http:// or https://');
  }
  const secret = values.secret ?? process.env['ROLLCALL_SECRET'];
  if (!secret) throw new TypeError("give the receiver's secret in the environment variable ROLLCALL_SECRET");
  const signing = SIGNINGS.find((each) => each === values.signing);
  if (signing === undefined) throw new TypeError(`--signing is one of ${SIGNINGS.join(', ')}`);
  return { url, secret, signing, batches: values.batches, json: values.json, handled: writtenTo(values.log) };
}

/** Reads what is written to the file from now on. */
function writtenTo(file: string | undefined): (() => string) | undefined {
  if (file === undefined) return undefined;
  const bytes = () => (existsSync(file) ? readFileSync(file) : Buffer.alloc(0));
  const { length } = bytes();
  return () => bytes().subarray(length).toString();
}

/** Fails with one clear line, instead of one for each case. */
async function reach(url: string): Promise<void> {
  try {
    await fetch(url, { method: 'POST', signal: AbortSignal.timeout(10_000) });
  } catch (error) {
    const { message, cause } = error as Error & { cause?: { code?: string; message?: string } };
    throw new Unreachable(`${new URL(url).origin} can't be reached: ${cause?.code ?? cause?.message ?? message}`);
  }
}

class Unreachable extends Error {}

const MARKS = { right: 'ok    ', advice: 'advice', wrong: 'WRONG ' };

function line({ name, expected, got, verdict, error }: CaseResult): string {
  const answer = (error ?? got.join(' ')).padEnd(12);
  const wanted = verdict === 'right' ? '' : ` expected ${expected.join(' or ')}`;
  return `${MARKS[verdict]}  ${name.padEnd(58)} ${answer}${wanted}`;
}

async function main(): Promise<void> {
  const { json, ...target } = options();
  await reach(target.url);
  const counts = { right: 0, advice: 0, wrong: 0 };
  for await (const result of conformance(target)) {
    counts[result.verdict] += 1;
    console.log(json ? JSON.stringify(result) : line(result).trimEnd());
  }
  process.exitCode = counts.wrong === 0 ? 0 : 1;
  if (json) return;
  const { right, advice, wrong } = counts;
  const others = [...(wrong > 0 ? [`${wrong} wrong`] : []), ...(advice > 0 ? [`advice on ${advice}`] : [])];
  console.log(`\n${[`${right} of ${right + advice + wrong} right`, ...others].join(', ')}`);
  if (target.handled === undefined) console.log('Not checked without --log: repetitions and order.');
}

// Node gives an address of a name 250 ms, too little for a distant receiver.
setDefaultAutoSelectFamilyAttemptTimeout(2_500);
try {
  await main();
} catch (error) {
  const message = error instanceof Error ? error.message : String(error);
  console.error(error instanceof Unreachable ? message : `${message}\n\n${usage}`);
  process.exitCode = error instanceof Unreachable ? 1 : 2;
}
