import { type Deleted, isChangeOf, type Opened, type Opening } from '../store.ts';
import { ignore, type PostgresClient, type PostgresPool } from './pool.ts';
import { checkedName, IS_CHANGE, USER } from './schema.ts';

/** Prefixes that distinguish requests and changes in one table. */
const REQUEST = 'r:';
const CHANGE = 'c:';
/** Longest name stored as it is, in characters of up to three bytes: an index entry of Postgres holds 2,700 bytes. */
const NAME_LIMIT = 800;
const PRUNE_LIMIT = 10_000;
const DATABASE_TIME = '(extract(epoch from clock_timestamp()) * 1000)::bigint';

interface InboxRow {
  readonly name: string;
  readonly done_at: string | null;
  readonly sequence: string;
  readonly holder: string | null;
  readonly held: boolean;
}

/** The rows of a request and of its change, locked. */
interface Rows {
  readonly request: InboxRow | undefined;
  readonly change: InboxRow | undefined;
}

interface TableOptions {
  readonly table?: string | undefined;
  readonly lease: number;
  readonly time?: string | undefined;
}

/** The table of requests and changes, and its statements. */
export class InboxTable {
  readonly name: string;
  readonly #lease: number;
  /** SQL for the current time. */
  readonly #time: string;

  constructor({ table = 'rollcall_receiver', lease, time = DATABASE_TIME }: TableOptions) {
    this.name = checkedName(table);
    this.#lease = lease;
    this.#time = time;
  }

  /** Locks the rows, and makes missing ones. All lock in the same order, so that there are no deadlocks. */
  async lock(client: PostgresClient, opening: Opening): Promise<Rows> {
    const { key, change, holder } = opening;
    const { rows } = await client.query(
      `insert into ${this.name} (name) select unnest($1::text[]) order by 1
       on conflict (name) do update set name = excluded.name
       returning name, done_at, sequence, holder,
         holder is not null and holder <> $2 and held_until > ${this.#time} as held`,
      [namesOf(opening), holder],
    );
    const find = (name: string | undefined) => (rows as InboxRow[]).find((row) => row.name === name);
    return {
      request: find(key === undefined ? undefined : REQUEST + key),
      change: find(change && CHANGE + change.name),
    };
  }

  async hold(client: PostgresClient, opening: Opening): Promise<void> {
    await client.query(
      `update ${this.name} set holder = $2, held_until = ${this.#time} + $3::bigint where name = any ($1::text[])`,
      [namesOf(opening), opening.holder, this.#lease],
    );
  }

  /** Marks the request as handled. */
  async mark(client: PostgresClient, { key, change, deletes }: Opening): Promise<void> {
    await client.query(
      `update ${this.name} set done_at = case when name = $1 then ${this.#time} end,
         sequence = case when name = $2 then $3::bigint else sequence end
       where name in ($1, $2)`,
      [key === undefined ? null : REQUEST + key, change ? CHANGE + change.name : null, change?.sequence ?? null],
    );
    if (deletes !== undefined) await this.#delete(client, deletes);
  }

  /** Marks the user's changes as deleted. The next `prune` of old rows removes them. */
  async #delete(client: PostgresClient, deleted: Deleted): Promise<void> {
    const { rows } = await client.query(
      `select name from ${this.name} where ${IS_CHANGE} and ${USER} = $1 order by name for update`,
      [JSON.stringify(deleted.userId)],
    );
    const names = (rows as InboxRow[])
      .map(({ name }) => name)
      .filter((name) => isChangeOf(name.slice(CHANGE.length), deleted));
    if (names.length === 0) return;
    await client.query(`update ${this.name} set done_at = ${this.#time} where name = any ($1::text[])`, [names]);
  }

  /** Releases the holder's locked rows. Deletes those that hold no information. */
  async give(client: PostgresClient, opening: Opening): Promise<void> {
    const names = namesOf(opening);
    await client.query(
      `update ${this.name} set holder = null, held_until = null where name = any ($1::text[]) and holder = $2`,
      [names, opening.holder],
    );
    await this.forgetEmpty(client, opening);
  }

  async forgetEmpty(client: PostgresClient, opening: Opening): Promise<void> {
    await client.query(
      `delete from ${this.name} where name = any ($1::text[]) and holder is null and done_at is null and sequence = -1`,
      [namesOf(opening)],
    );
  }

  /** Forgets requests that were handled, and users who were deleted, more than `keep` milliseconds ago. */
  async prune(pool: PostgresPool, keep: number): Promise<void> {
    await pool.query(
      `delete from ${this.name} where name in (
         select name from ${this.name} where done_at < ${this.#time} - $1::bigint
           and (holder is null or held_until <= ${this.#time}) limit ${PRUNE_LIMIT} for update skip locked)`,
      [keep],
    );
  }
}

/** Enough for the store's steps, whatever the database's default: they lock each row that they read. */
export const READ_COMMITTED = 'begin isolation level read committed';

export async function transaction<T>(
  pool: PostgresPool,
  work: (client: PostgresClient) => Promise<T>,
  begin = 'begin',
): Promise<T> {
  const client = await pool.connect();
  client.on?.('error', ignore);
  let broken: Error | undefined;
  try {
    await client.query(begin);
    const result = await work(client);
    await client.query('commit');
    return result;
  } catch (error) {
    await client.query('rollback').catch((failure: Error) => {
      broken = failure;
    });
    throw error;
  } finally {
    client.off?.('error', ignore);
    // Discard a connection whose transaction could not be ended.
    client.release(broken);
  }
}

/** Replaces names that the table can't hold: senders may choose any ids. */
export async function storable({ key, change, ...rest }: Opening): Promise<Opening> {
  return {
    key: key === undefined ? undefined : await storedName(key),
    change: change && { ...change, name: await storedName(change.name) },
    ...rest,
  };
}

/** Hashes a name that is too long, or that a Postgres text can't hold. */
async function storedName(name: string): Promise<string> {
  if (name.length <= NAME_LIMIT && !name.includes('\0')) return name;
  const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(name));
  return `sha256:${Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}

function namesOf({ key, change }: Opening): string[] {
  const names = [];
  if (key !== undefined) names.push(REQUEST + key);
  if (change !== undefined) names.push(CHANGE + change.name);
  return names;
}

export function stateOf(rows: Rows, { change }: Opening): Opened {
  if (rows.request && rows.request.done_at !== null) return 'done';
  if (rows.request?.held) return 'running';
  const last = Number(rows.change?.sequence ?? -1);
  if (change && change.sequence <= last) return change.sequence < last ? 'stale' : 'done';
  return rows.change?.held ? 'busy' : 'new';
}

export function isOurs({ request, change }: Rows, opening: Opening): boolean {
  return [opening.key && request, opening.change && change].every((row) => !row || row.holder === opening.holder);
}
