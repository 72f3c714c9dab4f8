import type { Socket } from 'node:net';
import pull from 'lodash/pull.js';
import pg from 'pg';

/** Gets an error or null, of which the types of pg name one at a time. */
type Done = (failure: never, client: never) => void;

/** What pools make their connections of, by the URL of a database. */
const clients = new Map<string, typeof pg.Client>();

/**
 * Keeps the connections of pools to this database, from now on, for the next pool: to make one, and to plan each statement on
 * it, takes the server longer than many a test.
 */
export function keepConnections(url: string): void {
  if (!clients.has(url)) clients.set(url, keptClient());
}

class Pool extends pg.Pool {
  constructor(config: pg.PoolConfig = {}) {
    const Client = clients.get(config.connectionString ?? '');
    super(Client ? { Client, ...config } : config);
  }
}
Object.assign(pg, { Pool });

function keptClient(): typeof pg.Client {
  const kept: KeptClient[] = [];

  class KeptClient extends pg.Client {
    private isMade = false;

    constructor(config?: string | pg.ClientConfig) {
      super(config);
      const client = kept.pop();
      // biome-ignore lint/correctness/noConstructorReturn: a pool asks for a new one, whichever it gets.
      if (client) return client;
    }

    override async connect(done?: Done): Promise<pg.Client> {
      const failure = this.isMade ? null : await super.connect().then(() => null, asIs);
      this.isMade = failure === null;
      this.socket.ref();
      done?.(failure as never, this as never);
      return this;
    }

    override async end(done?: Done): Promise<void> {
      // One that broke says so. One that failed amid a transaction, or that a migration set up, is as new.
      const failure = await this.query('ROLLBACK; RESET ALL').then(() => null, asIs);
      // Those of the pool that had it.
      this.removeAllListeners();
      this.on('error', () => undefined);
      if (failure) await super.end();
      else {
        this.socket.unref();
        this.once('end', () => pull<KeptClient>(kept, this));
        kept.push(this);
      }
      done?.(null as never, this as never);
    }

    private get socket(): Socket {
      return this.connection.stream as Socket;
    }
  }
  return KeptClient;
}

const asIs = (failure: Error) => failure;
