import { createHash } from 'node:crypto';
import { audiencesIn, type Condition } from '../src/definition/conditions.ts';
import { RollcallError } from '../src/kernel/errors.ts';
import { nothingNamed } from '../src/kernel/spelling.ts';
import { type Computation, computations, type SyncConfig } from './audience-or-trait.ts';
import { type ConfiguredDefinition, compile, compileAbsence, compileColumns } from './engines/definitions/compile.ts';
import { readStatement, singleStatement } from './engines/sql/statement.ts';

/** The SQL that computes an audience or trait. Short definitions are compiled. */
export function definitionSql(computation: Computation, config: Pick<SyncConfig, 'engines' | 'audiences'>): string {
  const definition = definitionOf(computation);
  if ('sql' in definition) return definition.sql;
  const dialect = dialectOf(computation, config);
  const sql = compile(definition, dialect, (key) => definitionOf(audienceOf(key, config)));
  const columns = computation.kind === 'audience' ? computation.with : undefined;
  if (columns === undefined) return sql;
  const traits = Object.entries(columns).map(([column, { trait = column }]) => [column, trait] as const);
  return compileColumns(sql, Object.fromEntries(traits), dialect);
}

/** The SQL that shows which parts of an audience's condition hold for a user. */
export function absenceSql(
  computation: Computation & { readonly when?: Condition | null },
  user: string,
  config: Pick<SyncConfig, 'engines' | 'audiences'>,
): string {
  const when = computation.when ?? { all: [] };
  const type = dialectOf(computation, config);
  return compileAbsence(user, when, type, (key) => definitionOf(audienceOf(key, config)));
}

function dialectOf({ key, engine }: Computation, { engines }: Pick<SyncConfig, 'engines'>): 'duckdb' | 'postgres' {
  const type = engines[engine]?.type ?? 'duckdb';
  if (type === 'duckdb' || type === 'postgres') return type;
  throw new RollcallError('sql_failed', `${key}: the engine ${engine} takes SQL only.`);
}

interface ShownSql {
  readonly key: string;
  readonly kind: Computation['kind'];
  readonly engine: string;
  readonly sql: string;
}

/**
 * The SQL of these audiences and traits; of all if `keys` is empty. Opens no engine.
 *
 * @param asOf - the value of `$now`, milliseconds since 1970; if absent, `$now` stays
 * @throws RollcallError `unknown_audience`
 */
export function shownSql(config: SyncConfig, keys: readonly string[], asOf?: number): readonly ShownSql[] {
  const all = computations(config);
  const known = all.map(({ key }) => key);
  const unknown = keys.filter((key) => !known.includes(key));
  if (unknown.length > 0) {
    throw new RollcallError('unknown_audience', nothingNamed('audience or trait', unknown, known));
  }
  const wanted = keys.length > 0 ? all.filter(({ key }) => keys.includes(key)) : all;
  return wanted.map((computation) => {
    const { key, kind, engine } = computation;
    const sql = definitionSql(computation, config);
    return { key, kind, engine, sql: asOf === undefined ? singleStatement(sql) : readStatement(sql, asOf) };
  });
}

/** A hash of the definition without its name, so that a renamed audience is recognized. */
export function definitionHash(computation: Computation): string {
  const { kind, engine } = computation;
  return shortHash(`${kind}\n${engine}\n${ownText(computation)}`);
}

/** A hash of what a definition says and of the language that it is written in, whatever its engine is called. */
export function contentHash(computation: Computation, { engines }: Pick<SyncConfig, 'engines'>): string {
  const { kind, engine } = computation;
  const dialect = engines[engine]?.type ?? 'duckdb';
  return shortHash(`${kind}\n${dialect}\n${ownText(computation)}`);
}

const shortHash = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 16);

/** The text of a definition and of all audiences that it refers to. */
export function definitionText(computation: Computation, config: Pick<SyncConfig, 'audiences'>): string {
  const definition = definitionOf(computation);
  const named = 'when' in definition ? audiencesIn(definition.when) : [];
  const others = named.map((key) => definitionText(audienceOf(key, config), config));
  return [ownText(computation), ...others].join('\n');
}

function ownText(computation: Computation): string {
  const definition = definitionOf(computation);
  return 'sql' in definition ? definition.sql : JSON.stringify(definition);
}

function definitionOf(computation: Computation): ConfiguredDefinition {
  if (computation.kind === 'audience' && computation.when) return { when: computation.when };
  if (computation.kind === 'trait' && computation.value) return { value: computation.value };
  return { sql: computation.sql ?? '' };
}

function audienceOf(key: string, { audiences }: Pick<SyncConfig, 'audiences'>): Computation {
  const found = audiences.find((audience) => audience.key === key);
  if (found) return found;
  const known = audiences.map((audience) => audience.key);
  throw new RollcallError('unknown_audience', nothingNamed('audience', [key], known));
}
