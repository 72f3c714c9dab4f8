import { setTimeout } from 'node:timers/promises';
import type { Run } from '../../src/store/port.ts';
import { createBoard } from './board.ts';
import { claimFolder } from './folder.ts';
import { openShop, type Shop, type ShopOptions } from './shop.ts';

/** Syncs as of fixed days show the same on every run. */
const MARCH_31 = Date.UTC(2026, 2, 31, 12);
const ORDERS = 8;
const PATIENCE = 60_000;
const ORDERS_EVERY = 2_000;

export interface RunOptions {
  /** Holds what the shop makes. Files that a shop left there are removed; a folder with anything else is refused. */
  readonly folder: string;
  /** One first sync, one of changes and a summary, instead of going on until `signal` aborts. */
  readonly once: boolean;
  /** The port that Rollcall listens on if it is free; any free one otherwise. */
  readonly port: number;
  readonly print: (line: string) => void;
  /** One JSON object per line: who speaks, and what. */
  readonly json?: boolean;
  readonly signal: AbortSignal;
  /** Lines said once it runs. */
  readonly hints?: (shop: Shop) => readonly string[];
}

/** Runs the shop; resolves to the exit code, or to why it can't start. */
export async function runShop(options: RunOptions): Promise<number | { readonly problem: string }> {
  const { folder, once, port, print, json = false } = options;
  const claim = claimFolder(folder);
  if (!claim.ok) return { problem: claim.problem };
  try {
    const signal = once ? AbortSignal.any([options.signal, AbortSignal.timeout(PATIENCE)]) : options.signal;
    const shop = { folder, port, board: createBoard(print, json) };
    if (once)
      return await runOnce(
        { ...shop, end: MARCH_31 },
        signal,
        json ? (text) => shop.board.say('summary', text.trim()) : print,
      );
    return await runUntilStopped({ ...shop, end: Date.now() }, signal, options.hints);
  } finally {
    claim.release();
  }
}

async function runOnce(options: ShopOptions, signal: AbortSignal, print: RunOptions['print']): Promise<number> {
  const { board } = options;
  const shop = await openShop(options);
  try {
    const first = await sync(shop, MARCH_31);
    await shop.untilVerified(sentBy(first), signal);
    board.flush();
    await shop.order(ORDERS, MARCH_31 + 5_000);
    const changes = await sync(shop, MARCH_31 + 6_000);
    await shop.untilVerified(sentBy(first) + ORDERS + sentBy(changes), signal);
    board.flush();
    return summarise(shop, first, changes, print);
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
function summarise({ app }: Shop, first: readonly Run[], changes: readonly Run[], print: RunOptions['print']): number {
  let agree = true;
  print('\nSummary');
  for (const [index, { key, members, sent }] of changes.entries()) {
    const known = key === 'lifetime_value' ? app.lifetimeValue.size : app.members.get(key)?.size;
    agree &&= known === members;
    const sentFirst = first[index]?.sent ?? 0;
    print(
      `  ${key.padEnd(16)} ${members} members; the app knows ${known}; webhooks: ${sentFirst} in the first sync, ${sent} for the changes`,
    );
  }
  print(
    `  ${sentBy(first) + ORDERS + sentBy(changes)} webhooks sent and verified; the app and Rollcall ${agree ? 'agree' : 'DISAGREE'}.`,
  );
  return agree ? 0 : 1;
}

async function runUntilStopped(
  options: ShopOptions,
  signal: AbortSignal,
  hints: RunOptions['hints'] = () => [],
): Promise<number> {
  const { board } = options;
  const shop = await openShop(options);
  board.say('rollcall', 'syncs every three seconds. Ctrl-C ends it.');
  for (const hint of hints(shop)) board.say('', hint);
  try {
    await shop.rollcall.sync.run();
    await shop.rollcall.sync.start();
    for (let turn = 0; !signal.aborted; turn += 1) {
      await shop.order(1 + (turn % 3), Date.now());
      await setTimeout(ORDERS_EVERY, undefined, { signal }).catch(() => {});
    }
    return 0;
  } finally {
    await shop.close();
  }
}
