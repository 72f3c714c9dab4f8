import type { ClientBase, ClientConfig } from 'pg';

export type SessionSettings = Readonly<Record<string, string | number>>;

/** Settings of a role or database must change neither the meaning of SQL nor the format of dates. */
export const PLAIN: SessionSettings = { standard_conforming_strings: 'on', DateStyle: 'ISO' };

/** A pooler rejects a session that asks for these when it begins. */
const LIMITS = ['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout'] as const;

/** Modes that the driver treats as verified, warning on each connection that they may mean less one day. */
const VERIFIED = /^(prefer|require|verify-ca)$/;

/** Connection settings for a URL. Limits in its query are set later, since a pooler rejects them at connection time. */
export function connectionTo(
  url: string,
  settings: SessionSettings,
): { config: ClientConfig; settings: SessionSettings } {
  const parsed = URL.parse(url);
  if (!parsed) return { config: { connectionString: url }, settings };
  const given: Record<string, string> = {};
  for (const limit of LIMITS) {
    const value = parsed.searchParams.get(limit);
    if (value !== null) given[limit] = value;
    parsed.searchParams.delete(limit);
  }
  const isVerified =
    VERIFIED.test(parsed.searchParams.get('sslmode') ?? '') && !parsed.searchParams.has('uselibpqcompat');
  if (isVerified) parsed.searchParams.set('sslmode', 'verify-full');
  const isChanged = isVerified || Object.keys(given).length > 0;
  return { config: { connectionString: isChanged ? parsed.href : url }, settings: { ...settings, ...given } };
}

/**
 * Applies these settings if the session belongs to this client alone. Behind a pooler it does not: the process id that
 * the client knows is not the server's, and the next transaction may run on another session.
 */
export async function ownsSession(client: ClientBase, settings: SessionSettings): Promise<boolean> {
  const { processID } = client as unknown as { processID: number };
  const { rows } = await client.query(
    `SELECT set_config(name, value, false) FROM unnest($1::text[], $2::text[]) AS setting (name, value)
     WHERE pg_backend_pid() = $3::bigint
     UNION ALL SELECT '' WHERE pg_backend_pid() = $3::bigint`,
    [Object.keys(settings), Object.values(settings).map(String), processID],
  );
  return rows.length > 0;
}

/** SQL to begin a transaction with these settings, in one round trip. They end with it. */
export function beginWith(settings: SessionSettings, mode = 'ISOLATION LEVEL READ COMMITTED'): string {
  // A search path is a list and must not be quoted.
  const text = (value: string | number) => `'${String(value).replaceAll("'", "''")}'`;
  const set = Object.entries(settings).map(
    ([name, value]) => `SET LOCAL ${name} = ${name === 'search_path' ? value : text(value)}`,
  );
  return [`BEGIN ${mode}`, ...set].join('; ');
}
