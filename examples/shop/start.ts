import { join, resolve } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Run } from '../../src/store/port.ts';
import { createBoard } from './board.ts';
import { claimFolder } from './folder.ts';
import { openShop, type Shop } from './shop.ts';

const HELP = `The example shop: sample orders, an app that receives webhooks, and Rollcall between them.

  npm start             runs until Ctrl-C: orders come in, audiences are synced every three seconds
  npm start -- --once   one first sync, one sync of changes, a summary

State is kept in examples/shop/data (or the folder that SHOP_DATA names), and made anew at every start.`;

/** Syncs as of fixed days show the same on every run. */
const MARCH_31 = Date.UTC(2026, 2, 31, 12);
const ORDERS = 8;
const PATIENCE = 60_000;
const ORDERS_EVERY = 2_000;

const { values } = parseArgs({ options: { once: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } } });
if (values.help) console.log(HELP);
else process.exitCode = await main(values.once === true);

async function main(once: boolean): Promise<number> {
  const folder = resolve(process.env['SHOP_DATA'] ?? join(import.meta.dirname, 'data'));
  const claim = claimFolder(folder);
  if (!claim.ok) {
    console.error(
      `The shop is running already (process ${claim.pid}). Stop it first, or set SHOP_DATA to another folder.`,
    );
    return 1;
  }
  const stopping = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopping.abort());
  try {
    const signal = once ? AbortSignal.any([stopping.signal, AbortSignal.timeout(PATIENCE)]) : stopping.signal;
    return await (once ? runOnce(folder, signal) : runUntilStopped(folder, signal));
  } finally {
    claim.release();
  }
}

async function runOnce(folder: string, signal: AbortSignal): Promise<number> {
  const board = createBoard(console.log);
  const shop = await openShop(folder, board, MARCH_31);
  try {
    const first = await sync(shop, MARCH_31);
    await shop.untilVerified(sentBy(first), signal);
    board.flush();
    shop.order(ORDERS, MARCH_31 + 5_000);
    const changes = await sync(shop, MARCH_31 + 6_000);
    await shop.untilVerified(sentBy(first) + ORDERS + sentBy(changes), signal);
    board.flush();
    return summarise(shop, first, changes);
  } finally {
    await shop.close();
  }
}

/** Syncs everything as of a time. */
async function sync({ rollcall }: Shop, now: number): Promise<readonly Run[]> {
  const reports = await rollcall.sync.run([], { now });
  for (const { error } of reports) if (error) throw error;
  return reports.flatMap(({ runs }) => runs);
}

function sentBy(runs: readonly Run[]): number {
  return runs.reduce((sum, { sent }) => sum + sent, 0);
}

/** Compares what the app has learnt from webhooks with what Rollcall computed; the exit code says whether they agree. */
function summarise({ app }: Shop, first: readonly Run[], changes: readonly Run[]): number {
  let agree = true;
  console.log('\nSummary');
  for (const [index, { key, members, sent }] of changes.entries()) {
    const known = key === 'lifetime_value' ? app.lifetimeValue.size : app.members.get(key)?.size;
    agree &&= known === members;
    const sentFirst = first[index]?.sent ?? 0;
    console.log(
      `  ${key.padEnd(16)} ${members} members; the app knows ${known}; webhooks: ${sentFirst} in the first sync, ${sent} for the changes`,
    );
  }
  console.log(
    `  ${sentBy(first) + ORDERS + sentBy(changes)} webhooks sent and verified; the app and Rollcall ${agree ? 'agree' : 'DISAGREE'}.`,
  );
  return agree ? 0 : 1;
}

async function runUntilStopped(folder: string, signal: AbortSignal): Promise<number> {
  const board = createBoard(console.log);
  const shop = await openShop(folder, board, Date.now());
  board.say('rollcall', 'syncs every three seconds. Ctrl-C ends it.');
  try {
    await shop.rollcall.sync.run();
    await shop.rollcall.sync.start();
    for (let turn = 0; !signal.aborted; turn += 1) {
      shop.order(1 + (turn % 3), Date.now());
      await setTimeout(ORDERS_EVERY, undefined, { signal }).catch(() => {});
    }
    return 0;
  } finally {
    await shop.close();
  }
}
