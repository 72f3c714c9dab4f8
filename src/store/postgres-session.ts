import type { ClientBase, ClientConfig } from 'pg';

/** Settings of a session, by name. */
export type SessionSettings = Readonly<Record<string, string | number>>;

/** What a role or a database has set must change neither what SQL means nor how days and times are written. */
export const PLAIN: SessionSettings = { standard_conforming_strings: 'on', DateStyle: 'ISO' };

/** Asked for as a session begins, each makes a pooler refuse it. */
const LIMITS = ['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout'] as const;

/** What the driver means by them, it warns with every connection that it may mean less one day. */
const VERIFIED = /^(prefer|require|verify-ca)$/;

/** Connects to a URL. The limits in its query are set afterwards: a pooler refuses who asks for them at once. */
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
 * Makes these settings, if the session is this client's alone. Behind a pooler it is not: the process that the client knows
 * is not the server's, and the next transaction may be on another session.
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

/** Begins a transaction with these settings, in one round trip. They end with it. */
export function beginWith(settings: SessionSettings, mode = 'ISOLATION LEVEL READ COMMITTED'): string {
  // A list of schemas is written as it is given.
  const text = (value: string | number) => `'${String(value).replaceAll("'", "''")}'`;
  const set = Object.entries(settings).map(
    ([name, value]) => `SET LOCAL ${name} = ${name === 'search_path' ? value : text(value)}`,
  );
  return [`BEGIN ${mode}`, ...set].join('; ');
}
