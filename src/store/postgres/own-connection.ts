import pg from 'pg';
import { RollcallError } from '../../errors.ts';
import { storeError } from './database.ts';

/** What would end a statement or a transaction for taking long, whoever has set it. */
const NO_TIMEOUTS = `SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN
  ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')`;
const CONNECT_TIMEOUT = 5_000;
/** When a server that says nothing is asked whether it is still there. */
const PROBE_AFTER = 30_000;

/**
 * Does long work on a connection of its own, which ends when the signal aborts. A transaction that is open then, or that the
 * work leaves open, is rolled back.
 */
export async function onOwnConnection<T>(
  url: string,
  signal: AbortSignal | undefined,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'rollcall',
    connectionTimeoutMillis: CONNECT_TIMEOUT,
    keepAlive: true,
    keepAliveInitialDelayMillis: PROBE_AFTER,
  });
  // Whoever uses a connection that breaks gets the error of the query.
  client.on('error', () => undefined);
  // Whoever waits for an answer gets the error.
  const stop = () => void client.end().catch(() => undefined);
  try {
    signal?.throwIfAborted();
    signal?.addEventListener('abort', stop);
    await client.connect();
    await client.query(NO_TIMEOUTS);
    return await work(client);
  } catch (error) {
    if (signal?.aborted) throw new RollcallError('stopping', 'Stopped before it was done.', { cause: error });
    throw storeError(error);
  } finally {
    signal?.removeEventListener('abort', stop);
    await client.end();
  }
}
