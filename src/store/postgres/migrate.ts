import { readdirSync, readFileSync } from 'node:fs';
import { systemClock } from '../../kernel/clock.ts';
import { RollcallError } from '../../kernel/errors.ts';
import { failpoint } from '../../kernel/failpoint.ts';
import { Database, type DatabaseSession } from './database.ts';
import { EVENTS_SCHEMA, eventViews } from './events/event-writing.ts';

const FOLDER = new URL('./migrations/', import.meta.url);
const TUNING = new URL('tuning.sql', FOLDER);

/** Compressing bodies costs more than it saves, as each is read once. Hashes don't compress. */
const COMPRESSED = `SELECT attrelid::regclass::text, attname FROM pg_attribute
  WHERE attstorage <> 'e' AND (attrelid, attname) IN (('rollcall.delivery'::regclass, 'body'), ('rollcall.seen_batch'::regclass, 'ids'))`;
/** Milliseconds between two tries to lock a table that others use. */
const PAUSE = 2_000;

const steps = (): string[] =>
  readdirSync(FOLDER)
    .filter((file) => /^\d+_.*\.sql$/.test(file))
    .sort();

/** @throws RollcallError `store_outdated` when migrations are pending, or another Rollcall made the tables; `store_failed` */
export async function checkVersion(db: DatabaseSession): Promise<void> {
  if ((await knownVersion(db)) < steps().length)
    throw new RollcallError('store_outdated', 'The database lacks migrations. Run: rollcall migrate -c FILE');
}

/**
 * Migrate the tables to the newest version; safe to run twice, even at once. Resolves to the versions applied.
 *
 * @param onWait - called when it first waits for others that use the tables
 * @throws RollcallError `store_failed`, `store_outdated`
 */
export async function migratePostgres(url: string, onWait = () => {}): Promise<readonly number[]> {
  const db = new Database({ url, clock: systemClock, patient: true });
  const applied: number[] = [];
  try {
    await knownVersion(db);
    for (const schema of ['rollcall', EVENTS_SCHEMA]) await createSchema(db, schema);
    await db
      .run('CREATE TABLE IF NOT EXISTS rollcall.migration (version integer PRIMARY KEY)')
      .catch(ifCreatedMeanwhile);
    for (const [index, file] of steps().entries()) {
      const sql = readFileSync(new URL(file, FOLDER), 'utf8');
      if (await whenFree(() => applyStep(db, index + 1, sql), onWait)) applied.push(index + 1);
    }
    const [version] = (await db.rows<[string]>('SELECT version()'))[0] ?? [''];
    if (/^PostgreSQL(?!.*-YB-)/.test(version)) await whenFree(() => tune(db), onWait);
    await whenFree(() => makeViews(db), onWait);
    await checkVersion(db);
    return applied;
  } finally {
    await db.close();
  }
}

/**
 * Retry `work` until its tables are free. A waiting lock request blocks all later ones, accepts and claims too. So each
 * wait ends soon (`Database.patient`), and is repeated until other users of the table, such as a backup, are done.
 */
async function whenFree<T>(work: () => Promise<T>, onWait: () => void): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await work();
    } catch (error) {
      if (((error as RollcallError).cause as { code?: string } | undefined)?.code !== '55P03') throw error;
      if (tries === 1) onWait();
      await systemClock.sleep(PAUSE);
    }
  }
}

/** True if the database has a store, of any version. */
export async function hasTables(url: string): Promise<boolean> {
  const db = new Database({ url, clock: systemClock });
  return currentVersion(db)
    .then((version) => version > 0)
    .finally(() => db.close());
}

async function tune(db: Database): Promise<void> {
  await runAll(db, readFileSync(TUNING, 'utf8'));
  // Only if needed: ALTER TABLE locks out even readers.
  for (const [table, column] of await db.rows<[string, string]>(COMPRESSED))
    await db.run(`ALTER TABLE ${table} ALTER ${column} SET STORAGE EXTERNAL`);
}

function makeViews(db: Database): Promise<void> {
  return db.transaction(async (session) => {
    // Two processes can't create the same view at once.
    await session.run('LOCK TABLE rollcall.migration IN SHARE ROW EXCLUSIVE MODE');
    for (const view of eventViews()) await session.run(view);
  });
}

/** Return the version of the tables; 0 if there are none. Throw if they are newer than this Rollcall or not usable. */
async function knownVersion(db: DatabaseSession): Promise<number> {
  await checkEncoding(db);
  const version = await currentVersion(db);
  if (version > steps().length)
    throw new RollcallError('store_outdated', 'The database was made by a newer Rollcall. Start that version.');
  return version;
}

/** Require UTF-8: a message that another encoding lacks a character for would fail its batch on each retry. */
async function checkEncoding(db: DatabaseSession): Promise<void> {
  const [[encoding] = []] = await db.rows<[string]>("SELECT current_setting('server_encoding')");
  if (encoding === 'UTF8') return;
  throw new RollcallError(
    'store_failed',
    `The database's encoding is ${encoding}, and has to be UTF8. Make another one: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`,
  );
}

/** Check first: a user who may not create a schema can use one that an administrator made. */
async function createSchema(db: DatabaseSession, name: string): Promise<void> {
  const [[present] = []] = await db.rows<[string | null]>('SELECT to_regnamespace($1)::text', [name]);
  if (!present) await db.run(`CREATE SCHEMA IF NOT EXISTS ${name}`).catch(ifCreatedMeanwhile);
}

/** Apply a step. Its row is written first: a second process waits for it, then finds the step done. */
function applyStep(db: Database, version: number, sql: string): Promise<boolean> {
  return db.transaction(async (session) => {
    const mine = await session.run('INSERT INTO rollcall.migration VALUES ($1) ON CONFLICT DO NOTHING', [version]);
    if (mine === 0) return false;
    await runAll(session, sql);
    if (version === 1) await identify(session);
    failpoint('migration');
    return true;
  });
}

/** Write the store's id, part of every Idempotency-Key, and the key of suppression hashes. */
async function identify(session: DatabaseSession): Promise<void> {
  await session.run("INSERT INTO rollcall.meta VALUES ('store', $1), ('suppression_key', $2)", [
    systemClock.token(5),
    systemClock.token(32),
  ]);
}

/** Run commands one by one, as prepared statements hold one each. No command contains a semicolon. */
async function runAll(session: DatabaseSession, sql: string): Promise<void> {
  const commands = sql.replaceAll(/^\s*--.*$/gm, '').split(';');
  for (const command of commands) if (command.trim() !== '') await session.run(command);
}

/** Return the version of the tables; 0 if there are none. */
export async function currentVersion(db: DatabaseSession): Promise<number> {
  const [present] = await db.rows<[string | null]>("SELECT to_regclass('rollcall.migration')::text");
  if (!present?.[0]) return 0;
  const [row] = await db.rows<[number]>('SELECT coalesce(max(version), 0) FROM rollcall.migration');
  return row?.[0] ?? 0;
}

/** Ignore the error that `IF NOT EXISTS` still gives one of two processes that create the same thing at once. */
function ifCreatedMeanwhile(error: RollcallError): void {
  const { code } = (error.cause ?? {}) as { code?: string };
  if (!['23505', '42P06', '42P07', '42710'].includes(code ?? '')) throw error;
}
