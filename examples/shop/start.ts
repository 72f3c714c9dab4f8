import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { hasColours, print } from '../../src/cli/output/terminal.ts';
import { runShop } from './run.ts';

const HELP = `The example shop: sample orders, an app that receives webhooks, and Rollcall between them.

  npm start             runs until Ctrl-C: orders come in, and audiences are live
  npm start -- --once   a few orders, what they change within a second and by time alone, a summary

Pages are at http://127.0.0.1:8080/ (SHOP_PORT names another port; if it is taken, a free one is used and printed).
State is kept in examples/shop/data (or the folder that SHOP_DATA names), and made anew at every start.
From the installed package it is "rollcall demo".`;

const { values } = parseArgs({ options: { once: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } } });
if (values.help) console.log(HELP);
else {
  const stopping = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopping.abort());
  const terminal = { stdout: process.stdout, stderr: process.stderr, signal: stopping.signal };
  const result = await runShop({
    folder: resolve(process.env['SHOP_DATA'] ?? join(import.meta.dirname, 'data')),
    once: values.once === true,
    port: Number(process.env['SHOP_PORT'] ?? 8080),
    print: (line) => print(terminal, line),
    isColoured: hasColours(process.stdout),
    signal: stopping.signal,
  });
  if (typeof result !== 'number') console.error(`${result.problem} SHOP_DATA names another folder.`);
  process.exitCode = typeof result === 'number' ? result : 1;
}
