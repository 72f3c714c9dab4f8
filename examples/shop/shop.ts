import { EventEmitter, once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import pino from 'pino';
import { App } from '../../src/app.ts';
// `rollcall demo` has no packages but its own: your shop would import '@rollcall/client'.
import { Client } from '../../src/client/index.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Run } from '../../src/store/port.ts';
import { createShopApp, type ShopApp } from './app.ts';
import { type Board, count } from './board.ts';
import { CONFIG, TITLE } from './folder.ts';
import { createOrderBook, history, orderEvent } from './orders.ts';

const TEMPLATE = join(import.meta.dirname, 'rollcall.yaml');
const SECRET = 'a-secret-for-trying-out';
const SEED = 7;
const ORDERS = 300;
const WARN = 40;

/** The shop, its app and Rollcall, all in this process. */
export interface Shop {
  readonly app: ShopApp;
  readonly rollcall: App;
  /** Path of Rollcall's configuration. */
  readonly config: string;
  /** Lets orders come in: to Rollcall as track calls. Resolves once it has them. */
  order(amount: number, at: number): Promise<void>;
  /** Resolves once so many webhooks are verified. */
  untilVerified(number: number, signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

export interface ShopOptions {
  /** An empty folder. */
  readonly folder: string;
  readonly board: Board;
  /** Port of Rollcall, if it is free. */
  readonly port: number;
  /** When the last of the sample orders came in, milliseconds since 1970. */
  readonly end: number;
}

/** Begins anew in an empty folder: the shop's app listening, Rollcall started, sample orders sent. */
export async function openShop({ folder, board, port: wanted, end }: ShopOptions): Promise<Shop> {
  const book = createOrderBook(SEED);
  const webhooks = new EventEmitter();
  let verified = 0;
  const audiences = ['big_spenders', 'lapsed_customers', 'just_bought'];
  const app = createShopApp(SECRET, audiences, (what, userId) => {
    verified += 1;
    board.verified(what, userId);
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
  for (const order of history(book, ORDERS, end)) past.track(orderEvent(order));
  await past.close();
  const client = new Client('shop-write-key', { endpoint });
  board.say('shop', `sent its ${ORDERS} orders so far; its app listens at http://127.0.0.1:${port}/hooks`);

  return {
    app,
    rollcall,
    config,
    async order(amount, at) {
      const orders = Array.from({ length: amount }, () => book.next(at));
      for (const order of orders) client.track(orderEvent(order));
      const list = orders.map(({ customer, amount }) => `${customer} ${amount.toFixed(2)}`);
      board.say('shop', `${count(orders.length, 'new order')}: ${list.join(', ')}`);
      await client.flush();
    },
    async untilVerified(number, signal) {
      while (verified < number) await once(webhooks, 'verified', { signal });
    },
    async close() {
      await client.close();
      await rollcall.close();
      await app.fastify.close();
      board.flush();
    },
  };
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
