import { connect } from 'node:net';
import pg from 'pg';

const CONNECT_TIMEOUT = 5_000;
/** The try at which the connection itself is closed: its server or network is gone. */
const LAST_TRY = 20;
/** Postgres' code for a cancel request, which has 16 bytes. */
const CANCEL_REQUEST = 80877102;

/**
 * Cancels what a connection runs; called again while it continues.
 *
 * @param config - leads to its server; null behind a pooler, which alone knows what runs for whom
 */
export function createCanceller(client: pg.Client, config: pg.ClientConfig | null): () => void {
  let tries = 0;
  let asking = false;
  return () => {
    tries += 1;
    if (tries === LAST_TRY)
      client.connection.stream.destroy(new Error('Connection terminated: it did not end when it was cancelled'));
    if (asking || tries >= LAST_TRY) return;
    asking = true;
    void (config ? cancelBySql(config, client).catch(() => cancelByRequest(client)) : cancelByRequest(client)).finally(
      () => {
        asking = false;
      },
    );
  };
}

/** Works through proxies and TLS. */
async function cancelBySql(config: pg.ClientConfig, running: pg.Client): Promise<void> {
  const client = new pg.Client({ ...config, connectionTimeoutMillis: CONNECT_TIMEOUT });
  client.on('error', () => {});
  try {
    await client.connect();
    await client.query('SELECT pg_cancel_backend($1)', [keyOf(running).processID]);
  } finally {
    await client.end().catch(() => {});
  }
}

/** Works even if the server takes no more connections. */
function cancelByRequest(client: pg.Client): Promise<void> {
  const { processID, secretKey } = keyOf(client);
  const request = Buffer.alloc(16);
  for (const [place, word] of [request.length, CANCEL_REQUEST, processID, secretKey].entries()) {
    request.writeInt32BE(word, place * 4);
  }
  return new Promise((resolve) => {
    const { host, port } = client;
    const socket = connect(host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port });
    socket.setTimeout(CONNECT_TIMEOUT, () => socket.destroy());
    socket.on('error', () => {});
    socket.on('close', () => resolve());
    // Left open: a pooler treats a half-closed connection as gone, and drops its request.
    socket.write(request);
  });
}

/** The key by which the server, or a pooler, knows the connection. */
function keyOf(client: pg.Client): { readonly processID: number; readonly secretKey: number } {
  return client as unknown as { processID: number; secretKey: number };
}
