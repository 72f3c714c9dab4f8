import pg from 'pg';
import type { Clock } from '../../kernel/clock.ts';
import { type ErrorCode, RollcallError } from '../../kernel/errors.ts';
import type { Remark } from '../../kernel/remark.ts';
import { examineServer, quoted } from '../postgres-server.ts';
import { beginWith, connectionTo, ownsSession, PLAIN, type SessionSettings } from '../postgres-session.ts';
import { raw, type Sql, sql } from '../sql.ts';
import { SteadiedTime } from '../steadied-time.ts';

/**
 * Milliseconds since 1970 by the database's clock, which all processes share; stable within a statement. A subquery,
 * since it is computed once and not for each row.
 */
const DATABASE_TIME = '(SELECT (extract(epoch FROM statement_timestamp()) * 1000)::bigint)';
/** Largest error of the clocks' known difference that is drift, in milliseconds; more is corrected. */
const DRIFT = 20;
/** Largest such error with which times are still read, in milliseconds: the clock of a new primary may be hours off. */
const STEP = 5_000;
/** Timeout of a statement, in milliseconds, unless the URL sets one. */
const STATEMENT_TIMEOUT = 10_000;
/** Milliseconds after that until the client gives up, for example because the connection leads nowhere. */
const GRACE = 2_000;
/** Timeout in milliseconds of statements that may scan many dead rows, which vacuum has not removed yet. */
export const PATIENCE = 600_000;
/** Longest wait of a migration for a lock, in milliseconds: the server cancels a vacuum sooner (`deadlock_timeout`). */
const LOCK_WAIT = 2_000;
/** Longest wait for a free or new connection, in milliseconds. */
const CONNECT_TIMEOUT = 5_000;
const CONNECTIONS = 8;
/** Connections that never end while idle: as many as rounds that come at once use, which would make them again each time. */
const KEPT = 6;
/** Retries after deadlocks, clashes of two writers, and connections lost during a transaction. */
const RETRIES = 5;
const CLASHES = new Set(['40001', '40P01']);
/**
 * The answer of a server that was the primary when the connection was made. It has written nothing, so the work may be
 * repeated on the next connection. Each older connection is dropped when it gives this answer.
 */
const DEMOTED = '25006';
/** The server ended an idle transaction, perhaps because this process was suspended. It has written nothing. */
const STOOD_STILL = '25P03';
/** Indexes in which two changes of one conflict key clash. */
const CLASHING_KEYS = new Set(['delivery_conflict', 'dead_letter_held_out_key']);
/**
 * The index in which two messages of one id clash. A retry sees the other's commit, so an accept clashes at most once
 * for each accept that shares some of its ids, and once for each id.
 */
const MESSAGE_IDS = 'seen_pkey';
const MESSAGE_ID_RETRIES = 1_000;

function retriesOf(code: string, constraint: string): number {
  if (code === DEMOTED) return CONNECTIONS;
  if (code === '23505' && constraint === MESSAGE_IDS) return MESSAGE_ID_RETRIES;
  const isClash = CLASHES.has(code) || (code === '23505' && CLASHING_KEYS.has(constraint));
  return isClash || code === STOOD_STILL ? RETRIES : 0;
}

const UNSAFE: Remark = {
  state: 'warning',
  message: 'runs with fsync off: acknowledged data is lost if its machine fails. Switch fsync on',
};

/** The owner of the tables, if this user is not: only the owner can add and drop partitions of the log. */
const STRANGE_OWNER = `SELECT pg_get_userbyid(relowner), current_user FROM pg_class
  WHERE oid = to_regclass('rollcall.event') AND NOT pg_has_role(relowner, 'USAGE')`;
const notOwned = (owner: string, user = '') =>
  `its tables belong to ${owner}, and ${user} may not change them. Connect as ${owner}, or GRANT ${quoted(owner)} TO ${quoted(user)}`;

export interface DatabaseSession {
  rows<T extends readonly unknown[]>(sql: string, values?: readonly unknown[]): Promise<T[]>;
  /** Return the number of rows changed. */
  run(sql: string, values?: readonly unknown[]): Promise<number>;
}

interface DatabaseOptions {
  readonly url: string;
  readonly clock: Clock;
  /** SQL for milliseconds since 1970; tests replace it to stop the clock. */
  readonly time?: string;
  /** Statements may take as long as they need, but not wait for locks for long, as in a migration. */
  readonly patient?: boolean;
  /** Called when the database first reports damage of its data or an index. */
  readonly onDamaged?: (error: RollcallError) => void;
}

/** Connections to one database. Broken ones are replaced on the next use, without any restart. */
export class Database implements DatabaseSession {
  /** SQL for the time, in milliseconds since 1970. */
  readonly now: string;
  readonly clock: Clock;
  /** This process's estimate of the store's time. It never jumps. Only differences have a meaning. */
  readonly time: SteadiedTime;
  /** Milliseconds that `time` is ahead of the database's. It changes by steps only, so times read twice are equal. */
  private ahead = 0;
  private readonly pool: pg.Pool;
  private readonly settings: SessionSettings;
  /** True if a pooler assigns transactions to any session, so that none may rely on session state; null until known. */
  private pooled: boolean | null = null;
  private closed = false;
  /** Failures of transactions before their commit: they have written nothing. */
  private readonly unwritten = new WeakSet<object>();
  private readonly onDamaged: (error: RollcallError) => void;
  damage: RollcallError | null = null;

  constructor({ url, clock, time = DATABASE_TIME, patient = false, onDamaged = () => {} }: DatabaseOptions) {
    this.onDamaged = onDamaged;
    this.clock = clock;
    this.time = new SteadiedTime(clock);
    this.now = time;
    const { config, settings } = connectionTo(url, { ...SESSION, statement_timeout: STATEMENT_TIMEOUT });
    this.settings = patient ? { ...settings, statement_timeout: 0, lock_timeout: LOCK_WAIT } : settings;
    const limit = Number(this.settings['statement_timeout']);
    this.pool = new pg.Pool({
      ...config,
      application_name: 'rollcall',
      max: CONNECTIONS,
      connectionTimeoutMillis: CONNECT_TIMEOUT,
      min: KEPT,
      ...(limit === 0 ? {} : { query_timeout: limit + GRACE }),
      keepAlive: true,
      allowExitOnIdle: true,
      types: { getTypeParser: parserOf as typeof pg.types.getTypeParser },
      onConnect: (client) => this.prepare(client),
    });
    // The pool drops a broken connection; its user gets the error from the query.
    this.pool.on('error', () => undefined);
    this.pool.on('connect', (client) => client.on('error', () => undefined));
  }

  rows<T extends readonly unknown[]>(sql: string, values: readonly unknown[] = []): Promise<T[]> {
    return this.attempt(async () => (await this.query<T>(sql, values)).rows);
  }

  run(sql: string, values: readonly unknown[] = []): Promise<number> {
    return this.attempt(async () => (await this.query(sql, values)).rowCount ?? 0);
  }

  /** Like `rows`, for a query that may take minutes. */
  patient<T extends readonly unknown[]>(sql: string, values: readonly unknown[] = []): Promise<T[]> {
    return this.transaction((session) => session.rows<T>(sql, values), PATIENCE);
  }

  /**
   * Run `work` in a transaction; run it again if it clashes with another one.
   *
   * @param patience - timeout of a statement in milliseconds, if not the usual one
   */
  transaction<T>(work: (session: DatabaseSession) => Promise<T>, patience?: number): Promise<T> {
    return this.attempt(() =>
      this.transact(async (client) => {
        const query = <R extends readonly unknown[]>(sql: string, values: readonly unknown[] = []) =>
          client.query<R>({ ...this.statement(sql, values), ...(patience ? { query_timeout: patience } : {}) });
        return work({
          rows: async <R extends readonly unknown[]>(sql: string, values?: readonly unknown[]) =>
            (await query<R>(sql, values)).rows,
          run: async (sql, values) => (await query(sql, values)).rowCount ?? 0,
        });
      }, patience),
    );
  }

  /** Convert a time of the store to a distance from now, which SQL adds to the database's now. */
  fromNow(time: number): number;
  fromNow(time: number | null): number | null;
  fromNow(time: number | null): number | null {
    return time === null ? null : Math.round(time - this.time.now());
  }

  /** Convert a distance from the database's now to a time of the store. It differs a little each time it is read. */
  local(distance: number): number;
  local(distance: number | null): number | null;
  local(distance: number | null): number | null {
    return distance === null ? null : this.time.now() + distance;
  }

  /** SQL for a time of the store, which is the same each time it is read. */
  read(column: Sql): Sql {
    const now = raw(this.now);
    const local = sql`${this.time.now()}::bigint`;
    const ahead = sql`${this.ahead}::bigint`;
    return sql`${column} +
      CASE WHEN abs(${local} - ${now} - ${ahead}) <= ${raw(String(STEP))} THEN ${ahead} ELSE ${local} - ${now} END`;
  }

  /** Compare the clocks. @param asked - the store's time when the database was asked for its own */
  compare(theirs: number, asked: number): void {
    const [least, most] = [asked - theirs, this.time.now() - theirs];
    if (this.ahead < least - DRIFT || this.ahead > most + DRIFT) this.ahead = Math.round((least + most) / 2);
  }

  /** Like `fromNow`, for a time by the wall clock. */
  fromWallNow(time: number): number {
    return Math.round(time - this.clock.now());
  }

  async examine(): Promise<readonly Remark[]> {
    const [[fsync] = []] = await this.rows<[string]>("SELECT current_setting('fsync')");
    const server = await examineServer({
      rows: (sql) => this.rows(sql),
      isPooled: this.pooled === true,
      connections: CONNECTIONS,
    });
    const [[owner, user] = []] = await this.rows<[string, string]>(STRANGE_OWNER);
    const owned: Remark[] = owner === undefined ? [] : [{ state: 'failed', message: notOwned(owner, user) }];
    return [...owned, ...(fsync === 'on' ? [] : [UNSAFE]), ...server];
  }

  async close(): Promise<void> {
    this.closed = true;
    await this.pool.end();
  }

  private async query<T extends readonly unknown[]>(sql: string, values: readonly unknown[]) {
    if (this.pooled === null) (await this.pool.connect()).release();
    if (!this.pooled) return this.pool.query<T>(this.statement(sql, values));
    return this.transact((client) => client.query<T>(this.statement(sql, values)));
  }

  private async transact<T>(work: (client: pg.PoolClient) => Promise<T>, patience?: number): Promise<T> {
    const client = await this.pool.connect();
    /** The reason why the connection broke. Later queries on it only fail with a general error without a code. */
    let broken = null as Error | null;
    const onError = (error: Error) => {
      broken ??= error;
    };
    client.on('error', onError);
    let mayBeWritten = false;
    try {
      const begin = this.pooled ? beginWith(this.settings) : 'BEGIN';
      await client.query(patience ? `${begin}; SET LOCAL statement_timeout = ${patience}` : begin);
      const result = await work(client);
      if (broken !== null) throw broken;
      mayBeWritten = true;
      await client.query('COMMIT');
      client.release();
      return result;
    } catch (error) {
      const rolledBack = await client.query('ROLLBACK').then(
        () => true,
        () => false,
      );
      const { code } = error as { code?: string };
      client.release(!rolledBack || code === DEMOTED);
      const reason = broken !== null && code === undefined ? broken : (error as Error);
      if (broken !== null && !mayBeWritten) this.unwritten.add(reason);
      throw reason;
    } finally {
      client.off('error', onError);
    }
  }

  /** Set up a new session. Once a session turns out to be pooled, transactions bring all they need. */
  private async prepare(client: pg.ClientBase): Promise<void> {
    const pooled = !(await ownsSession(client, this.settings));
    const came = this.pooled === false && pooled;
    this.pooled = pooled || this.pooled === true;
    const asked = this.time.now();
    const { rows } = await client.query<[number]>({ text: `SELECT ${this.now}`, rowMode: 'array' });
    for (const [theirs] of rows) this.compare(theirs, asked);
    // The work that waits for this session would use named statements.
    if (came) throw new Error('A pooler now stands between this process and the database');
  }

  private async attempt<T>(work: () => Promise<T>): Promise<T> {
    if (this.closed) throw new RollcallError('store_closed', 'The store is closed.');
    // Counted per kind of failure: many clashes of one kind must not use up the retries of another.
    const failures = new Map<string, number>();
    for (;;) {
      try {
        return await work();
      } catch (error) {
        const { code = '', constraint = '' } = error as { code?: string; constraint?: string };
        const what = `${code} ${constraint}`;
        const count = (failures.get(what) ?? 0) + 1;
        failures.set(what, count);
        const retries = this.unwritten.has(error as object) ? RETRIES : retriesOf(code, constraint);
        if (count > retries) throw this.known(error);
      }
    }
  }

  private known(error: unknown): RollcallError {
    const failure = storeError(error);
    if (failure.code === 'store_damaged' && this.damage === null) {
      this.damage = failure;
      this.onDamaged(failure);
    }
    return failure;
  }

  /** Prepare each statement once per connection, under a name. Behind a pooler, prepare it each time. */
  private statement(text: string, values: readonly unknown[]) {
    if (this.pooled) return { text, values: values as unknown[], rowMode: 'array' as const };
    let name = NAMES.get(text);
    if (name === undefined) {
      name = `s${NAMES.size}`;
      NAMES.set(text, name);
    }
    return { name, text, values: values as unknown[], rowMode: 'array' as const };
  }
}

/**
 * Every statement relies on an index. A plan made while a table was empty, kept for the connection's life, must not
 * scan it once it holds a million rows. Commits are on disk before they return, whatever the server's default is.
 */
const SESSION: SessionSettings = {
  ...PLAIN,
  synchronous_commit: 'on',
  // Statements wait for each other's rows, then continue with their new state.
  default_transaction_isolation: 'read committed',
  enable_seqscan: 'off',
  enable_bitmapscan: 'off',
  enable_mergejoin: 'off',
  jit: 'off',
  plan_cache_mode: 'force_generic_plan',
  // A process suspended in a transaction must not keep its locks.
  idle_in_transaction_session_timeout: STATEMENT_TIMEOUT,
};

/** Names of prepared statements by their text. */
const NAMES = new Map<string, string>();

const INT8 = 20;

function parserOf(oid: number, format?: 'text' | 'binary') {
  return oid === INT8 ? Number : pg.types.getTypeParser(oid, format);
}

export function storeError(error: unknown): RollcallError {
  if (error instanceof RollcallError) return error;
  const { code = '', message = '' } = error as { code?: string; message?: string };
  return new RollcallError(
    meaningOf(code, message),
    `The database failed: ${message || code || String(error)}.${HINTS.get(code) ?? poolerHint(message)}`,
    {
      cause: error,
    },
  );
}

const REPAIR =
  ' Look at the server: restore a backup, or REINDEX if only an index is damaged; then start Rollcall again.';
const HINTS: ReadonlyMap<string, string> = new Map([
  ['XX001', REPAIR],
  ['XX002', REPAIR],
  ['58P01', REPAIR],
  [
    '42501',
    ' The user of `store` must own the schemas rollcall and rollcall_events, and all in them: see docs/postgres.md.',
  ],
  ['ECONNREFUSED', ' Nothing listens there: start the database, or correct `store`.'],
  ['ENOTFOUND', ' Nobody knows that name: correct the host in `store`.'],
  ['28P01', ' Look at the user and the password in `store`.'],
  ['3D000', ' Make it with CREATE DATABASE, or correct `store`.'],
  ['53100', " Make room on the server's disk; nothing was lost."],
  ['25006', ' It is a standby, or set to read only: `store` must name the server that accepts writes.'],
]);

/** Return advice on a pooler's error, which has no code of its own. */
function poolerHint(message: string): string {
  if (/statement pooling mode/.test(message)) return ' Set pool_mode = transaction, or session, in the pooler.';
  if (/unsupported startup parameter/.test(message)) return ' Remove it from `store`: poolers do not pass it on.';
  return '';
}

/** Codes for damaged data, a damaged index, and a missing file of the server. */
const DAMAGE = new Set(['XX001', 'XX002', '58P01']);

function meaningOf(code: string, message: string): ErrorCode {
  if (code === '53100') return 'store_full';
  if (DAMAGE.has(code)) return 'store_damaged';
  if (code === '25006') return 'store_read_only';
  if (code === '3F000' || code === '42P01' || code === '42703') return 'store_outdated';
  // Too many connections, locks, deadlocks, statements cancelled for taking too long, no free connection.
  if (['53300', '55P03', '40001', '40P01', '57014', STOOD_STILL].includes(code)) return 'store_busy';
  return /timeout/i.test(message) ? 'store_busy' : 'store_failed';
}
