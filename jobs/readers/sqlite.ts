import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { SqliteConfig } from '../../src/config/config.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import { placeOfName, SQLITE, singleStatement } from '../engines/sql/statement.ts';
import { definitionError } from './errors.ts';
import type { Reader, ReadRequest, ValueKind } from './port.ts';
import type { SqliteAnswer, SqliteDemand } from './sqlite-process.ts';

const SCRIPT = fileURLToPath(
  new URL(`./sqlite-process${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url),
);
/** Milliseconds to wait for a lock of a writer. */
const LOCK = 10_000;

/** Codes of SQLite without their details: 1 is the definition's, these are of the file. */
const BUSY = new Set([5, 6]);
const UNREACHABLE = new Set([3, 14, 23, 26]);
const DAMAGED = new Set([10, 11]);

/** Reads a SQLite file in a process of its own, which is ended to cancel a query. */
export function openSqlite({ path }: SqliteConfig): Reader {
  let child: ChildProcess | null = null;

  function start(): ChildProcess {
    // Of the environment, it needs nothing else.
    const env = { TZ: 'UTC' };
    child = fork(SCRIPT, {
      serialization: 'advanced',
      env,
      execArgv: ['--no-warnings'],
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    return child;
  }

  function end(): void {
    child?.kill('SIGKILL');
    child = null;
  }

  const died = () =>
    new RollcallError('source_incomplete', `The process that reads ${path} ended before the last row.`);

  /** @param asked - the process of the query: another one knows nothing of its rows */
  async function ask(
    asked: ChildProcess,
    demand: SqliteDemand,
    signal: AbortSignal | undefined,
  ): Promise<SqliteAnswer> {
    signal?.throwIfAborted();
    if (!asked.connected) throw died();
    return new Promise((resolve, reject) => {
      const over = (finish: () => void) => {
        asked.off('message', answered).off('exit', ended).off('error', ended);
        signal?.removeEventListener('abort', cancel);
        finish();
      };
      const answered = (answer: SqliteAnswer) => over(() => resolve(answer));
      const ended = () => over(() => reject(died()));
      const cancel = () =>
        over(() => {
          end();
          reject(signal?.reason);
        });
      asked.on('message', answered).on('exit', ended).on('error', ended);
      signal?.addEventListener('abort', cancel, { once: true });
      // A failure is reported as the end of the process.
      asked.send(demand, () => {});
    });
  }

  async function query({ sql, now, signal }: ReadRequest) {
    const moment = `'${new Date(now).toISOString().replace('T', ' ').replace('Z', '')}'`;
    const failed = (error: SqliteFailure) => meaningOf(error, path, sql);
    const statement = singleStatement(sql, moment, SQLITE);
    const asked = child?.connected ? child : start();
    const answer = await ask(asked, { path, sql: statement, timeout: LOCK }, signal);
    if ('error' in answer) throw failed(answer.error);
    if (!('named' in answer)) throw new RollcallError('engine_failed', 'SQLite answered out of turn.');
    const columns = answer.named.map(({ name, type }) => ({ name, type: type ?? 'any', kind: kindOf(type ?? '') }));
    async function* batches() {
      for (;;) {
        const answer = await ask(asked, 'next', signal);
        if ('error' in answer) throw failed(answer.error);
        if (!('rows' in answer)) throw new RollcallError('engine_failed', 'SQLite answered out of turn.');
        yield answer;
        if (answer.isLast) return;
      }
    }
    return { columns, batches: batches() };
  }

  return {
    query,
    async examine() {
      const { batches } = await query({
        sql: "select sqlite_version() || ': ' || count(*) || ' tables, indexes and views' as state from sqlite_schema",
        now: 0,
      });
      for await (const { columns } of batches) return [{ state: 'ok', message: `SQLite ${columns[0]}` }];
      return [];
    },
    close: async () => end(),
  };
}

/** Only what a type declares for certain: in other columns each value has a type of its own. */
function kindOf(type: string): ValueKind {
  if (/blob|binary/i.test(type)) return 'binary';
  if (/real|floa|doub/i.test(type)) return 'double';
  return /bool/i.test(type) ? 'boolean' : 'any';
}

type SqliteFailure = Extract<SqliteAnswer, { error: object }>['error'];

function meaningOf({ message, errcode = 0, isStale = false }: SqliteFailure, path: string, sql: string): RollcallError {
  const code = errcode & 0xff;
  if (isStale || DAMAGED.has(code)) return new RollcallError('source_incomplete', `${path}: ${message}.`);
  if (BUSY.has(code))
    return new RollcallError('engine_failed', `${path}: ${message}: a writer kept it locked for ${LOCK / 1_000} s.`);
  if (UNREACHABLE.has(code)) return new RollcallError('engine_unreachable', `Can't open ${path}: ${message}.`);
  if (code === 8) {
    const advice =
      'SQLite needs to write beside a file in WAL mode, or to roll back what a writer left. Give this user the right to write to its folder, or copy the file with `sqlite3 .backup`';
    if (errcode !== 8) return new RollcallError('engine_unreachable', `Can't read ${path}: ${message}. ${advice}.`);
  }
  if (code !== 1 && code !== 8 && code !== 0 && code !== 20 && code !== 25)
    return new RollcallError('engine_failed', `${path}: ${message}.`);
  const [, name = ''] =
    /(?:near "(.+)": syntax error|no such (?:column|table|function): (.+))$/
      .exec(message)
      ?.filter((part) => part !== undefined) ?? [];
  return definitionError(new Error(message), { sql, place: name === '' ? null : placeOfName(sql, name, SQLITE) });
}
