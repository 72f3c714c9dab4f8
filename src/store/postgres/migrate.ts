import { readdirSync, readFileSync } from 'node:fs';
import { systemClock } from '../../clock.ts';
import { RollcallError } from '../../errors.ts';
import { failpoint } from '../../failpoint.ts';
import { Database, type Session } from './database.ts';
import { EVENTS_SCHEMA, eventViews } from './event-writing.ts';

const FOLDER = new URL('./migrations/', import.meta.url);
const TUNING = new URL('tuning.sql', FOLDER);

const steps = (): string[] =>
  readdirSync(FOLDER)
    .filter((file) => /^\d+_.*\.sql$/.test(file))
    .sort();

/** @throws RollcallError `store_outdated` when migrations are pending, or a newer Rollcall made the tables; `store_failed` */
export async function checkVersion(db: Session): Promise<void> {
  await checkEncoding(db);
  const version = await currentVersion(db);
  const newest = steps().length;
  if (version < newest) {
    throw new RollcallError('store_outdated', 'The database lacks migrations. Run: rollcall migrate -c FILE');
  }
  if (version > newest) {
    throw new RollcallError('store_outdated', 'The database was made by a newer Rollcall. Start that version.');
  }
}

/**
 * Brings the tables to the newest version; safe to run twice, and by two at once. Resolves to the versions applied.
 *
 * @throws RollcallError `store_failed`, `store_outdated`
 */
export async function migratePostgres(url: string): Promise<readonly number[]> {
  const db = new Database({ url, clock: systemClock, patient: true });
  const applied: number[] = [];
  try {
    await checkEncoding(db);
    for (const schema of ['rollcall', EVENTS_SCHEMA]) await createSchema(db, schema);
    await db
      .run('CREATE TABLE IF NOT EXISTS rollcall.migration (version integer PRIMARY KEY)')
      .catch(ifCreatedMeanwhile);
    for (const [index, file] of steps().entries()) {
      if (await applyStep(db, index + 1, readFileSync(new URL(file, FOLDER), 'utf8'))) applied.push(index + 1);
    }
    const [version] = (await db.rows<[string]>('SELECT version()'))[0] ?? [''];
    if (/^PostgreSQL(?!.*-YB-)/.test(version)) await runAll(db, readFileSync(TUNING, 'utf8'));
    await db.transaction(async (session) => {
      // Two can't make the same view at once.
      await session.run('LOCK TABLE rollcall.migration IN SHARE ROW EXCLUSIVE MODE');
      for (const view of eventViews()) await session.run(view);
    });
    await checkVersion(db);
    return applied;
  } finally {
    await db.close();
  }
}

/** One message that another encoding does not have would fail all that are written with it, each time that they are sent. */
async function checkEncoding(db: Session): Promise<void> {
  const [[encoding] = []] = await db.rows<[string]>("SELECT current_setting('server_encoding')");
  if (encoding === 'UTF8') return;
  throw new RollcallError(
    'store_failed',
    `The database's encoding is ${encoding}, and has to be UTF8. Make another one: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`,
  );
}

/** Looks first: who may not create a schema may use the one that an administrator made. */
async function createSchema(db: Session, name: string): Promise<void> {
  const [[present] = []] = await db.rows<[string | null]>('SELECT to_regnamespace($1)::text', [name]);
  if (!present) await db.run(`CREATE SCHEMA IF NOT EXISTS ${name}`).catch(ifCreatedMeanwhile);
}

/** The version's row is written first: a second process waits for it, and then finds the step done. */
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

/** The store's own id, part of every Idempotency-Key, and the key of suppression hashes. */
async function identify(session: Session): Promise<void> {
  await session.run("INSERT INTO rollcall.meta VALUES ('store', $1), ('suppression_key', $2)", [
    systemClock.token(5),
    systemClock.token(32),
  ]);
}

/** Prepared statements hold one command each; no semicolon stands within one. */
async function runAll(session: Session, sql: string): Promise<void> {
  const commands = sql.replaceAll(/^\s*--.*$/gm, '').split(';');
  for (const command of commands) if (command.trim() !== '') await session.run(command);
}

async function currentVersion(db: Session): Promise<number> {
  const [present] = await db.rows<[string | null]>("SELECT to_regclass('rollcall.migration')::text");
  if (!present?.[0]) return 0;
  const [row] = await db.rows<[number]>('SELECT coalesce(max(version), 0) FROM rollcall.migration');
  return row?.[0] ?? 0;
}

/** `IF NOT EXISTS` still fails for one of two who create the same at once. */
function ifCreatedMeanwhile(error: RollcallError): void {
  const { code } = (error.cause ?? {}) as { code?: string };
  if (!['23505', '42P06', '42P07', '42710'].includes(code ?? '')) throw error;
}
