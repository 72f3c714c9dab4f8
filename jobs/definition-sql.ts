import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import { audiencesIn, type Condition } from '../src/definition/conditions.ts';
import type { Sequence } from '../src/definition/definition.ts';
import { RollcallError } from '../src/kernel/errors.ts';
import { nothingNamed } from '../src/kernel/spelling.ts';
import { type Computation, computations, type SyncConfig, withLiveTraits } from './audience-or-trait.ts';
import { readModel } from './engines/dbt/models.ts';
import { type AskedPerson, askedPerson } from './engines/definitions/absence.ts';
import {
  type ConfiguredDefinition,
  compile,
  compileColumns,
  compileCounted,
  DIALECTS,
  namedSql,
} from './engines/definitions/compile.ts';
import type { CountedDefinition } from './engines/definitions/funnel.ts';
import { stepsQuery } from './engines/definitions/steps.ts';
import { readStatement, singleStatement } from './engines/sql/statement.ts';

type Defined = Pick<SyncConfig, 'engines' | 'audiences' | 'traits'>;

/**
 * The configuration with the SQL of the dbt models that an audience or trait, and those that it refers to, are made of.
 *
 * @throws RollcallError `dbt_stale`
 */
export async function withModels(config: SyncConfig, computation: Computation): Promise<SyncConfig> {
  const read = new Map<string, Computation>();
  await readModels(computation, config, read);
  if (read.size === 0) return config;
  const filled = <C extends Computation>(each: C) => (read.get(each.key) ?? each) as C;
  return { ...config, audiences: config.audiences.map(filled), traits: config.traits.map(filled) };
}

async function readModels(computation: Computation, config: SyncConfig, read: Map<string, Computation>) {
  const { dbt, key } = computation;
  if (dbt) {
    const { sql, checksum } = await readModel(dbt);
    read.set(key, { ...computation, sql, dbt: { ...dbt, checksum } });
  } else if (computation.kind === 'audience' && computation.when) {
    for (const name of audiencesIn(computation.when)) await readModels(audienceOf(name, config), config, read);
  }
}

/** The SQL that computes an audience or trait. Short definitions are compiled. */
export function definitionSql(computation: Computation, config: Defined): string {
  const definition = definitionOf(computation, config);
  if ('sql' in definition) return definition.sql;
  const { dialect, schema } = dialectOf(computation, config);
  const sql = compile(definition, dialect, (key) => definitionOf(audienceOf(key, config), config), schema);
  return withColumns(sql, computation, dialect);
}

function withColumns(sql: string, computation: Computation, dialect: 'duckdb' | 'postgres'): string {
  const columns = computation.kind === 'audience' ? computation.with : undefined;
  if (columns === undefined) return sql;
  const traits = Object.entries(columns).map(([column, { trait = column }]) => [column, trait] as const);
  return compileColumns(sql, Object.fromEntries(traits), dialect);
}

/** The short definition of an audience, taken apart to count people; null for any other. */
export function countedDefinitionOf(computation: Computation, config: Defined): CountedDefinition | null {
  if (computation.kind !== 'audience' || !computation.when) return null;
  const { dialect, schema } = dialectOf(computation, config);
  const when = withLiveTraits(computation.when, config);
  const audience = (key: string) => definitionOf(audienceOf(key, config), config);
  const counted = compileCounted(when, computation.allowPlaceholders ?? false, dialect, audience, schema);
  const { funnel } = counted;
  return { ...counted, funnel: { ...funnel, sql: withColumns(funnel.sql, computation, dialect) } };
}

/** A short definition of an audience, taken apart to ask what is true of one user. */
export function askedPersonOf(
  computation: Computation & { readonly when: Condition },
  user: string,
  config: Defined,
): AskedPerson {
  const { dialect, schema } = dialectOf(computation, config);
  const audience = (key: string) => definitionOf(audienceOf(key, config), config);
  const when = withLiveTraits(computation.when, config);
  return askedPerson(user, when, namedSql(dialect, audience, schema), DIALECTS[dialect]);
}

/** The SQL that finds a user's messages that may be steps of these sequences. */
export function stepsSql(
  computation: Computation,
  user: string,
  sequences: readonly Sequence[],
  config: Pick<SyncConfig, 'engines'>,
): string {
  return stepsQuery(user, sequences, DIALECTS[dialectOf(computation, config).dialect]);
}

function dialectOf(
  { key, engine }: Computation,
  { engines }: Pick<SyncConfig, 'engines'>,
): { readonly dialect: 'duckdb' | 'postgres'; readonly schema?: string | undefined } {
  const { type, ...settings } = engines[engine] ?? { type: 'duckdb' };
  const schema = 'schema' in settings && typeof settings.schema === 'string' ? settings.schema : undefined;
  if (type === 'duckdb' || type === 'postgres') return { dialect: type, schema };
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
 * @throws RollcallError `unknown_audience`, `dbt_stale`
 */
export async function shownSql(
  config: SyncConfig,
  keys: readonly string[],
  asOf?: number,
): Promise<readonly ShownSql[]> {
  const all = computations(config);
  const known = all.map(({ key }) => key);
  const unknown = keys.filter((key) => !known.includes(key));
  if (unknown.length > 0) {
    throw new RollcallError('unknown_audience', nothingNamed('audience or trait', unknown, known));
  }
  const wanted = keys.length > 0 ? all.filter(({ key }) => keys.includes(key)) : all;
  return Promise.all(
    wanted.map(async (computation) => {
      const { key, kind, engine } = computation;
      const read = await withModels(config, computation);
      const sql = definitionSql(computations(read).find((each) => each.key === key) ?? computation, read);
      return { key, kind, engine, sql: asOf === undefined ? singleStatement(sql) : readStatement(sql, asOf) };
    }),
  );
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
  return shortHash(`${kind}\n${dialect}\n${ownText(computation)}${computation.dbt?.checksum ?? ''}`);
}

const shortHash = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 16);

/** The text of a definition and of all audiences and live traits that it refers to. */
export function definitionText(computation: Computation, config: Pick<SyncConfig, 'audiences' | 'traits'>): string {
  const definition = definitionOf(computation, config);
  const named = 'when' in definition ? audiencesIn(definition.when) : [];
  const others = named.map((key) => definitionText(audienceOf(key, config), config));
  return [textOf(computation, definition), ...others].join('\n');
}

const ownText = (computation: Computation) => textOf(computation, definitionOf(computation, { traits: [] }));

/** A model of dbt is what its file says, wherever dbt puts it. */
function textOf({ dbt }: Computation, definition: ConfiguredDefinition): string {
  if (dbt) return `dbt ${basename(dbt.project)} ${dbt.model}`;
  return 'sql' in definition ? definition.sql : JSON.stringify(definition);
}

/** Stands for a dbt model until `withModels` has read it. No database runs it. */
const UNREAD = 'a model of dbt';

function definitionOf(computation: Computation, config: Pick<SyncConfig, 'traits'>): ConfiguredDefinition {
  if (computation.kind === 'audience' && computation.when) return { when: withLiveTraits(computation.when, config) };
  if (computation.kind === 'trait' && computation.value) return { value: computation.value };
  return { sql: computation.sql ?? UNREAD };
}

function audienceOf(key: string, { audiences }: Pick<SyncConfig, 'audiences'>): Computation {
  const found = audiences.find((audience) => audience.key === key);
  if (found) return found;
  const known = audiences.map((audience) => audience.key);
  throw new RollcallError('unknown_audience', nothingNamed('audience', [key], known));
}
