import { setTimeout } from 'node:timers/promises';
import { createBoard } from './board.ts';
import { claimFolder } from './folder.ts';
import { openShop, type Shop, type ShopOptions } from './shop.ts';

const ORDERS = 8;
const PATIENCE = 60_000;
const ORDERS_EVERY = 2_000;
/** Turns of orders. */
const CART_EVERY = 8;

export interface RunOptions {
  /** Holds what the shop makes. Files that a shop left there are removed; a folder with anything else is refused. */
  readonly folder: string;
  /** A few orders and a summary, instead of going on until `signal` aborts. */
  readonly once: boolean;
  /** The port that Rollcall listens on if it is free; any free one otherwise. */
  readonly port: number;
  readonly print: (line: string) => void;
  readonly isColoured: boolean;
  /** One JSON object per line: who speaks, and what. */
  readonly json?: boolean;
  readonly signal: AbortSignal;
  /** Lines said once it runs. */
  readonly hints?: (shop: Shop) => readonly string[];
}

/** Runs the shop; resolves to the exit code, or to why it can't start. */
export async function runShop(options: RunOptions): Promise<number | { readonly problem: string }> {
  const { folder, once, port, print, json = false, isColoured } = options;
  const claim = claimFolder(folder);
  if (!claim.ok) return { problem: claim.problem };
  const board = createBoard(print, json, isColoured);
  const tell = json ? (text: string) => board.say('summary', text.trim()) : print;
  try {
    const signal = once ? AbortSignal.any([options.signal, AbortSignal.timeout(PATIENCE)]) : options.signal;
    const shop = { folder, port, board };
    if (once) return await runOnce(shop, signal, tell);
    return await runUntilStopped(shop, signal, options.hints);
  } catch (error) {
    if (!(error instanceof Error && error.name === 'AbortError')) throw error;
    if (!once) return 0;
    tell(options.signal.aborted ? 'Interrupted.' : 'It was not done within a minute: is this machine busy?');
    return 1;
  } finally {
    claim.release();
  }
}

async function runOnce(options: ShopOptions, signal: AbortSignal, print: RunOptions['print']): Promise<number> {
  const shop = await openShop(options);
  try {
    await shop.rollcall.sync.start();
    await shop.settled(signal);
    await shop.fillCart();
    await shop.order(ORDERS);
    await shop.settled(signal);
    await shop.untilEmpty('just_bought', signal);
    await shop.settled(signal);
    return await summarise(shop, print);
  } finally {
    await shop.close();
  }
}

/** Compares what the app has learnt from webhooks with what Rollcall computed; the exit code says whether they agree. */
async function summarise({ app, rollcall, verified }: Shop, print: RunOptions['print']): Promise<number> {
  let agree = true;
  print('\nSummary');
  for (const { key, members } of await rollcall.sync.audiences()) {
    const known = key === 'lifetime_value' ? app.lifetimeValue.size : app.members.get(key)?.size;
    agree &&= known === members;
    print(`  ${key.padEnd(16)} ${members} members; the app knows ${known}`);
  }
  print(`  ${verified()} webhooks sent and verified; the app and Rollcall ${agree ? 'agree' : 'DISAGREE'}.`);
  return agree ? 0 : 1;
}

async function runUntilStopped(
  options: ShopOptions,
  signal: AbortSignal,
  hints: RunOptions['hints'] = () => [],
): Promise<number> {
  const { board } = options;
  const shop = await openShop(options);
  board.say('rollcall', `computes live. Open ${shop.rollcall.signInLink()} in a browser; Ctrl-C ends it.`);
  for (const hint of hints(shop)) board.say('', hint);
  try {
    await shop.rollcall.sync.start();
    await shop.settled(signal);
    for (let turn = 0; !signal.aborted; turn += 1) {
      if (turn % CART_EVERY === 0) await shop.fillCart();
      await shop.order(1 + (turn % 3));
      await setTimeout(ORDERS_EVERY, undefined, { signal }).catch(() => {});
    }
    return 0;
  } finally {
    await shop.close();
  }
}
