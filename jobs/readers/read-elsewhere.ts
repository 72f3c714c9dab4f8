import { RollcallError } from '../../src/kernel/errors.ts';
import { columnsByUse, refuseRepeated, untellable, valueKeys, withUnnamed } from '../engines/plan/columns.ts';
import { runsDefinition } from '../engines/plan/counts.ts';
import type { Definition, Engine, Staged, StageRequest, TraitColumn } from '../engines/port.ts';
import { name } from '../engines/sql/plan-query.ts';
import type { SqlSession } from '../engines/sql/session.ts';
import { TextRows } from '../engines/sql/texts.ts';
import { codeOf } from './errors.ts';
import type { ReadColumn, Reader, ReadResult, ValueList } from './port.ts';
import { ID_KINDS, idTextOf, jsonTextOf, jsonTypeOf, packed, timeTextOf } from './values.ts';

/** The engine that has the snapshots, and its place for the rows of a definition until they are compared. */
interface Home {
  readonly engine: Engine;
  readonly session: SqlSession;
  /** The kind and name of a table that no other session uses. */
  staging(request: StageRequest): { readonly kind: 'TEMPORARY' | 'UNLOGGED'; readonly table: string };
}

/** Opens the database that is read, once a definition needs it. */
export type OpenReader = () => Promise<Reader>;

/**
 * An engine whose definitions are read in another database. Their rows are streamed into a table of the home, whose own
 * plan then runs over that table in place of the definition.
 */
export function readElsewhere({ engine, session, staging }: Home, open: OpenReader): Engine {
  let opened: Promise<Reader> | null = null;
  const reader = () => {
    opened ??= open();
    return opened;
  };

  async function withRows<T extends object>(
    request: StageRequest,
    work: (request: StageRequest) => Promise<T>,
  ): Promise<T> {
    if (!runsDefinition(request)) return work(request);
    const { kind, table } = staging(request);
    try {
      const { sql, unnamed } = await naming(request, async () => {
        const { chosen, result, unnamed } = await read(await reader(), request);
        await session.run(`DROP TABLE IF EXISTS ${table}`);
        await session.run(
          `CREATE ${kind} TABLE ${table} (${chosen.map(({ column, type }) => `${column} ${type}`).join(', ')})`,
        );
        await load(session, table, chosen, result, request.signal);
        // DuckDB counts as it writes.
        if (kind === 'UNLOGGED') await session.run(`ANALYZE ${table}`);
        const columns = chosen.map(({ column, as }) => `${column} AS ${name(as)}`);
        return { sql: `SELECT ${columns.join(', ')} FROM ${table}`, unnamed };
      });
      return { ...(await work({ ...request, sql, isRead: true })), ...unnamed };
    } finally {
      await session.run(`DROP TABLE IF EXISTS ${table}`).catch(() => {});
    }
  }

  return {
    ...engine,
    stage: (request) => withRows(request, engine.stage),
    preview: (request, sampleSize) => withRows(request, (given) => engine.preview(given, sampleSize)),
    describe: (definition) =>
      naming(definition, async () => {
        const { chosen, unnamed } = await read(await reader(), definition);
        return withUnnamed(
          chosen.flatMap(({ trait }) => trait ?? []),
          unnamed.unnamed,
        );
      }),
    examine: async () => (await reader()).examine(),
    async close() {
      await (await opened?.catch(() => null))?.close().catch(() => {});
      await engine.close();
    },
  };
}

/** A column of a definition in the table of its rows. */
interface Chosen {
  readonly column: string;
  readonly type: string;
  /** The place in the definition's rows. */
  readonly place: number;
  /** The name in the definition. */
  readonly as: string;
  readonly text: (value: NonNullable<unknown>) => string | null;
  /** A blank id is invalid, and counted. */
  readonly nothing: string;
  readonly isId: boolean;
  readonly trait?: TraitColumn;
}

async function read(
  reader: Reader,
  definition: Definition,
): Promise<{
  readonly chosen: readonly Chosen[];
  readonly result: ReadResult;
  /** Columns of an audience that nothing names. */
  readonly unnamed: Pick<Staged, 'unnamed'>;
}> {
  const { sql, asOf: now, signal } = definition;
  const result = await reader.query({ sql, now, signal });
  const { columns } = result;
  refuseRepeated(
    definition,
    columns.map((column) => column.name),
    false,
  );
  const { user, fresh, values, ...unnamed } = columnsByUse(definition, columns, ({ kind }) => ID_KINDS.has(kind));
  const choose = (found: ReadColumn, type: string, text: Chosen['text'], nothing = ''): Omit<Chosen, 'column'> => {
    return { type, place: columns.indexOf(found), as: found.name, text, nothing, isId: found === user };
  };
  const keys = valueKeys(definition, values);
  const chosen = [
    choose(user, 'varchar', idTextOf(user), ' '),
    ...(fresh ? [choose(fresh, 'varchar', timeTextOf(fresh))] : []),
    ...values.map((value, place) => {
      if (value.kind === 'binary') throw untellable(value);
      const trait = { key: keys[place] ?? value.name, ...jsonTypeOf(value) };
      return { ...choose(value, 'json', jsonTextOf(value)), trait };
    }),
  ];
  return { chosen: chosen.map((each, n) => ({ column: `column${n}`, ...each })), result, unnamed };
}

async function load(
  session: SqlSession,
  table: string,
  chosen: readonly Chosen[],
  { batches }: ReadResult,
  signal: AbortSignal | undefined,
): Promise<void> {
  const rows = new TextRows(
    session,
    table,
    chosen.map(({ column, type }) => ({ name: column, type })),
  );
  for await (const batch of batches) {
    const [count, valuesOf] =
      'columns' in batch
        ? [batch.rows, ({ place }: Chosen) => batch.columns[place] ?? []]
        : [batch.length, ({ place }: Chosen) => batch.map((row) => row[place])];
    rows.add(
      chosen.map((column) => textsOf(column, valuesOf(column))),
      count,
    );
    if (rows.isFull) await rows.write();
    signal?.throwIfAborted();
  }
  signal?.throwIfAborted();
  await rows.write();
}

function textsOf({ text, nothing, isId }: Chosen, values: ValueList): readonly string[] | string {
  const ids = isId ? packed(values) : '';
  if (typeof ids === 'string' && ids !== '' && text(ids) !== null) return ids;
  const list = typeof values === 'string' ? values.split('\n') : values;
  return list.map((value) => (value === null || value === undefined ? null : text(value)) || nothing);
}

/** Names the audience in errors, and recognizes those of readers by their code. */
async function naming<T>({ key, signal }: Definition, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    signal?.throwIfAborted();
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new RollcallError(codeOf(cause) ?? 'engine_failed', `${key}: ${message}`, { cause });
  }
}
