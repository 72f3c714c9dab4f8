import { EventEmitter, once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import pino from 'pino';
import { App } from '../../src/app.ts';
// `rollcall demo` has no packages but its own: your shop would import '@rollcall/client'.
import { Client } from '../../src/client/index.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Run } from '../../src/store/port.ts';
import { createShopApp, type ShopApp } from './app.ts';
import { type Board, count } from './board.ts';
import { CONFIG, TITLE } from './folder.ts';
import { createOrderBook, customerTraits, history, orderEvent } from './orders.ts';

const TEMPLATE = join(import.meta.dirname, 'rollcall.yaml');
const SECRET = 'a-secret-for-trying-out';
const SEED = 7;
const ORDERS = 300;
const WARN = 40;
const LOOK_EVERY = 50;

/** The shop, its app and Rollcall, all in this process. */
export interface Shop {
  readonly app: ShopApp;
  readonly rollcall: App;
  /** Path of Rollcall's configuration. */
  readonly config: string;
  /** Lets orders come in now: to Rollcall as track calls. Resolves once it has them. */
  order(amount: number): Promise<void>;
  /** Lets a customer fill a cart and go away. */
  fillCart(): Promise<void>;
  /** Webhooks verified so far. */
  verified(): number;
  /** Resolves once the app knows all that Rollcall knows. */
  settled(signal: AbortSignal): Promise<void>;
  /** Resolves once nobody is in this audience any more, by what the app was told. */
  untilEmpty(key: string, signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

export interface ShopOptions {
  /** An empty folder. */
  readonly folder: string;
  readonly board: Board;
  /** Port of Rollcall, if it is free. */
  readonly port: number;
}

/** Begins anew in an empty folder: the shop's app listening, Rollcall started, sample orders sent. */
export async function openShop({ folder, board, port: wanted }: ShopOptions): Promise<Shop> {
  const book = createOrderBook(SEED);
  const webhooks = new EventEmitter();
  let verified = 0;
  let carts = 0;
  const orderedAt = new Map<string, number>();
  const audiences = ['big_spenders', 'lapsed_customers', 'just_bought', 'abandoned_carts'];
  const app = createShopApp(SECRET, audiences, (what, userId) => {
    verified += 1;
    const at = orderedAt.get(userId);
    board.verified(what, userId, at === undefined ? null : (Date.now() - at) / 1_000);
    webhooks.emit('verified');
  });
  await app.fastify.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.fastify.server.address() as AddressInfo;

  const values = {
    SHOP_DATA: '.',
    SHOP_SECRET: SECRET,
    SHOP_APP_PORT: String(port),
    SHOP_PORT: await freePort(wanted),
  };
  const config = writeConfig(folder, values);
  const rollcall = await App.create(loadConfig(config), { log: readableLog(board) });
  await rollcall.start({ collect: true, schedules: false });
  const endpoint = rollcall.address ?? '';
  board.say('rollcall', `started; it takes messages at ${endpoint}`);
  const past = new Client('past-write-key', { endpoint });
  const orders = history(book, ORDERS, Date.now());
  for (const userId of new Set(orders.map(({ customer }) => customer))) past.identify(customerTraits(userId));
  for (const order of orders) past.track(orderEvent(order));
  await past.close();
  const client = new Client('shop-write-key', { endpoint });
  board.say('shop', `sent its ${ORDERS} orders so far; its app listens at http://127.0.0.1:${port}/hooks`);

  return {
    app,
    rollcall,
    config,
    async order(amount) {
      const now = Date.now();
      const orders = Array.from({ length: amount }, () => book.next(now));
      for (const { customer } of orders) orderedAt.set(customer, now);
      for (const order of orders) client.track(orderEvent(order));
      const list = orders.map(({ customer, amount }) => `${customer} ${amount.toFixed(2)}`);
      board.say('shop', `${count(orders.length, 'new order')}: ${list.join(', ')}`);
      await client.flush();
    },
    async fillCart() {
      // The last customers hardly ever order.
      const customer = `customer-${60 - (carts % 10)}`;
      carts += 1;
      client.track({ userId: customer, event: 'Cart Updated', properties: { total: 20 + carts } });
      board.say('shop', `${customer} fills a cart and goes away`);
      await client.flush();
    },
    verified: () => verified,
    async settled(signal) {
      while (!(await isSettled(rollcall))) await setTimeout(LOOK_EVERY, undefined, { signal });
      board.flush();
    },
    async untilEmpty(key, signal) {
      while (app.members.get(key)?.size) await once(webhooks, 'verified', { signal });
    },
    async close() {
      await client.close();
      await rollcall.close();
      await app.fastify.close();
      board.flush();
    },
  };
}

/** Everything is computed, and delivered. */
async function isSettled({ sync, store }: App): Promise<boolean> {
  const audiences = await sync.audiences();
  const isComputed = audiences.every(({ live }) => live?.lag === 0 && live.hold === null);
  return isComputed && (await store.backlog()).every(({ pending }) => pending === 0);
}

/** The configuration with its variables filled in, so that any command can be tried on it. */
function writeConfig(folder: string, values: Readonly<Record<string, string>>): string {
  const text = readFileSync(TEMPLATE, 'utf8').replace(
    /^(#.*\n)+/,
    `${TITLE} It is running here: try any command with -c.\n`,
  );
  const path = join(folder, CONFIG);
  writeFileSync(
    path,
    text.replaceAll(/\$\{(\w+):-([^}]*)\}/g, (_, name: string, usual: string) => values[name] ?? usual),
  );
  return path;
}

/** This port, or any free one where it is taken. */
async function freePort(wanted: number): Promise<string> {
  const server = createServer();
  const listening = once(server, 'listening');
  server.listen(wanted, '127.0.0.1');
  try {
    await listening;
  } catch {
    return freePort(0);
  }
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return String(port);
}

/** Rollcall's log as lines for people: what was computed, and what went wrong. */
function readableLog(board: Board): pino.Logger {
  const write = (line: string) => {
    const { event, level, msg, ...fields } = JSON.parse(line);
    if (event === 'sync_run' && (fields.first || fields.sent > 0)) board.say('computed', describeRun(fields));
    else if (level >= WARN) board.say('rollcall', `${msg} ${fields.err?.message ?? ''}`);
  };
  return pino({ level: 'info' }, { write });
}

function describeRun(run: Pick<Run, 'key' | 'kind' | 'first' | 'members' | 'entered' | 'exited' | 'sent'>): string {
  const { key, kind, first, members, entered, exited, sent } = run;
  const changes = kind === 'trait' ? count(sent, 'new value') : `${entered} entered, ${exited} left`;
  return `${key}${first ? ' (first sync)' : ''}: ${count(members, 'member')}, ${changes} → ${count(sent, 'webhook')}`;
}
