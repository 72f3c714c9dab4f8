/** One app of a fleet, in a process of its own: `app.ts JSON`. It sends its port, when handlers begin and end, and what `on.error` hears. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { type ComputedBody, createReceiver, type Handler, type ReceivedRequest } from '../../../receivers/index.ts';
import { silent } from '../helpers/hosts.ts';
import { FORMER } from './former.ts';
import { openTables } from './tables.ts';

export interface AppOptions {
  /** A Postgres URL, or the path of a SQLite file. */
  readonly database: string;
  readonly secret: string;
  readonly lease: number;
  readonly deadline: number;
}

const { database, secret, lease, deadline } = JSON.parse(process.argv[2] as string) as AppOptions;
const tables = await openTables(database, lease);

/** The sender says in the URL, which nothing signs, how its attempt is to go. */
async function work({ url }: ReceivedRequest): Promise<{ fail: () => void }> {
  const query = new URL(url, 'http://localhost').searchParams;
  process.send?.('began');
  if (query.has('hold')) await once(process, 'message');
  await wait(Number(query.get('delay') ?? 0));
  return {
    fail() {
      if (query.has('fail')) throw new Error('as the sender wants it');
    },
  };
}

type ComputedHandler = Handler<ComputedBody>;

const writes: Record<string, ComputedHandler> = {
  /** In the transaction that ends the request. */
  async transaction(message, request) {
    const { fail } = await work(request);
    await tables.inTransaction(request, tables.member('transaction', message), fail);
  },
  /** By itself, but only over what is older. */
  async conditional(message, request) {
    const { fail } = await work(request);
    await tables.alone(tables.memberIfNewer('conditional', message));
    fail();
  },
  /** By itself, whatever is there. */
  async plain(message, request) {
    const { fail } = await work(request);
    await tables.alone(tables.member('plain', message));
    fail();
  },
};

const traced =
  (write: ComputedHandler): ComputedHandler =>
  async (message, request) => {
    try {
      await write(message, request);
    } finally {
      process.send?.('ended');
    }
  };

const hooks = createReceiver({
  secret: [secret, FORMER],
  signing: 'both',
  deadline,
  store: tables.store,
  log: silent,
  on: {
    audience: Object.fromEntries(
      Object.entries(writes).map(([key, write]) => [key, { entered: traced(write), exited: traced(write) }]),
    ),
    async track({ userId }, request) {
      const { fail } = await work(request);
      await tables.inTransaction(request, tables.counted(userId ?? ''), fail);
    },
    error: (error, { stage }) => void process.send?.(`${stage}: ${(error as Error).message}`),
  },
});
const server = createServer(hooks.node).listen(0, '127.0.0.1', () =>
  process.send?.((server.address() as AddressInfo).port),
);
