import pg from 'pg';
import { RollcallError } from '../../kernel/errors.ts';
import { beginWith, connectionTo, ownsSession, PLAIN } from '../postgres-session.ts';
import { storeError } from './database.ts';

/** Timeouts that would end a long statement or transaction, wherever they are set. */
const TIMEOUTS = `SELECT name FROM pg_settings WHERE name IN
  ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout', 'transaction_timeout')`;
const CONNECT_TIMEOUT = 5_000;
/** Milliseconds of silence after which the server is probed. */
const PROBE_AFTER = 30_000;

/**
 * Do long work on a connection of its own, which ends when the signal aborts. A transaction that is then open, or that
 * the work leaves open, is rolled back. Behind a pooler only transactions are free of timeouts.
 *
 * @param work - receives a connection, and a function that begins a transaction on it
 */
export async function onOwnConnection<T>(
  url: string,
  signal: AbortSignal | undefined,
  work: (client: pg.Client, begin: (mode?: string) => Promise<void>) => Promise<T>,
): Promise<T> {
  const client = new pg.Client({
    ...connectionTo(url, {}).config,
    application_name: 'rollcall',
    connectionTimeoutMillis: CONNECT_TIMEOUT,
    keepAlive: true,
    keepAliveInitialDelayMillis: PROBE_AFTER,
  });
  // The query reports the error of a broken connection.
  client.on('error', () => undefined);
  // The waiting call reports the error.
  const stop = () => void client.end().catch(() => undefined);
  try {
    signal?.throwIfAborted();
    signal?.addEventListener('abort', stop);
    // `connect` never settles if the client is ended while it connects.
    const over = new Promise<never>((_, reject) =>
      client.once('end', () => reject(new Error('The connection is over.'))),
    );
    await Promise.race([client.connect(), over]);
    const { rows } = await client.query<{ name: string }>(TIMEOUTS);
    const settings = { ...PLAIN, ...Object.fromEntries(rows.map(({ name }) => [name, 0])) };
    await ownsSession(client, settings);
    return await work(client, async (mode) => void (await client.query(beginWith(settings, mode))));
  } catch (error) {
    if (signal?.aborted) throw new RollcallError('stopping', 'Stopped before it was done.', { cause: error });
    throw storeError(error);
  } finally {
    signal?.removeEventListener('abort', stop);
    await client.end();
  }
}
