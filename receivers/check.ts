#!/usr/bin/env node
import { parseArgs } from 'node:util';
import { type CaseResult, conformance } from './testing/conformance.ts';

const usage = `Tries a webhook receiver with good and bad requests and says what it gets wrong.

Usage: rollcall-receiver-check URL --secret SECRET [--json]

The requests carry made-up users and events: try a receiver whose handlers can take that.
Exit codes: 0 all right, 1 something is wrong, 2 bad usage.`;

function options(): { url: string; secret: string; json: boolean } {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { secret: { type: 'string' }, json: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
  });
  if (values.help) {
    console.log(usage);
    process.exit(0);
  }
  const [url] = positionals;
  if (positionals.length !== 1 || url === undefined || !URL.canParse(url)) throw new TypeError('give one URL');
  if (!values.secret) throw new TypeError('give the --secret of the receiver');
  return { url, secret: values.secret, json: values.json ?? false };
}

function line({ name, expected, got, passed, error }: CaseResult): string {
  const answer = (error ?? got.join(' ')).padEnd(12);
  return `${passed ? 'ok   ' : 'WRONG'}  ${name.padEnd(56)} ${answer}${passed ? '' : ` expected ${expected.join(' or ')}`}`;
}

async function main(): Promise<void> {
  const { json, ...target } = options();
  let wrong = 0;
  let count = 0;
  for await (const result of conformance(target)) {
    count += 1;
    if (!result.passed) wrong += 1;
    console.log(json ? JSON.stringify(result) : line(result).trimEnd());
  }
  if (!json) console.log(`\n${count - wrong} of ${count} right`);
  process.exitCode = wrong === 0 ? 0 : 1;
}

try {
  await main();
} catch (error) {
  console.error(`${error instanceof Error ? error.message : error}\n\n${usage}`);
  process.exitCode = 2;
}
