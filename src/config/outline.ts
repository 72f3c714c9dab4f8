import snakeCase from 'lodash/snakeCase.js';
import * as z from 'zod';

/** The store if the file has none. */
export const DEFAULT_STORE = 'sqlite:./rollcall.db';
/** The snapshot file if a DuckDB engine has none. */
export const DEFAULT_SNAPSHOTS = './audiences.duckdb';
/** The engine if the file has none. */
const DEFAULT_ENGINE = 'lake';

const word = z.string().catch('');
const words = z.array(word).catch([]);
const list = <S extends z.core.$ZodShape>(shape: S) =>
  z.array(z.union([z.object(shape), z.unknown().transform(() => null)])).catch([]);

const computation = {
  ...{ name: word, key: word, engine: word, source: word },
  ...{
    sql: z.unknown().optional(),
    sqlFile: z.unknown().optional(),
    dbt: z.unknown().optional(),
    live: z.unknown().optional(),
    schedule: z.unknown().optional(),
  },
  ...{ timezone: z.unknown().optional(), expect: z.unknown().optional() },
};

const outline = z.object({
  admin: z.object({ token: word, tokens: list({ name: word, token: word }) }).catch({ token: '', tokens: [] }),
  sources: list({ id: word, writeKey: word }),
  destinations: list({
    name: word,
    sources: words,
    audiences: words,
    columns: z.record(z.string(), z.unknown()).optional().catch(undefined),
    webhooks: z
      .array(z.object({ url: word }))
      .optional()
      .catch([]),
    webhookUrl: word.optional(),
    signing: word,
    sharedSecret: z.union([z.string().transform((secret) => [secret]), words]),
  }),
  store: z
    .union([z.string(), z.object({ url: z.string().default(DEFAULT_STORE) }).transform(({ url }) => url)])
    .catch(DEFAULT_STORE),
  network: z.object({ ca: z.union([z.string().transform((path) => [path]), words]) }).catch({ ca: [] }),
  engines: z.record(z.string(), z.unknown()).catch({}),
  audiences: list({
    ...{ ...computation, when: z.unknown().optional(), sends: z.unknown().optional() },
    with: z
      .union([z.array(word), z.record(z.string(), z.unknown())])
      .optional()
      .catch(undefined),
  }),
  traits: list({ ...computation, value: z.unknown().optional() }),
  eventLog: z.looseObject({ sources: words, path: word }).optional().catch(undefined),
  alerts: z
    .object({ notify: list({ name: word }) })
    .optional()
    .catch(undefined),
});
/** The parts of a file that rules between them need. Skips malformed parts, which are reported elsewhere. */
export type FileOutline = z.output<typeof outline>;

/** Null if the file is not a map. */
export const outlineOf = (file: unknown): FileOutline | null => outline.safeParse(file).data ?? null;

const engineOutline = z.object({
  ...{ type: word, url: word, schema: word, snapshots: word.optional() },
  path: z.string().default(DEFAULT_SNAPSHOTS).catch(''),
});

/** The engine that has snapshots of others, if the file has none for them. */
export const IMPLIED_SNAPSHOTS = 'snapshots';

interface SnapshotSettings {
  readonly type: string;
  readonly snapshots?: string | undefined;
}

const READ_ONLY = new Set(['mysql', 'sqlite', 'trino', 'snowflake', 'bigquery']);

/** True if nothing is written to this engine. */
export const isReadOnly = ({ type, snapshots }: SnapshotSettings): boolean =>
  snapshots !== undefined || READ_ONLY.has(type);

/** True if an engine can have the snapshots of others. */
export const canHaveSnapshots = (engine: SnapshotSettings): boolean =>
  !isReadOnly(engine) && (engine.type === 'duckdb' || engine.type === 'postgres');

/** The engine that has the snapshots of those that name none. */
export function defaultSnapshots(engines: Readonly<Record<string, SnapshotSettings>>, store: string): string {
  const first = Object.entries(engines).find(([, engine]) => engine.type === 'duckdb' && canHaveSnapshots(engine));
  return store.startsWith('sqlite:') && first ? first[0] : IMPLIED_SNAPSHOTS;
}

/** The readable parts of an engine; undefined if there is none of this name. */
export function engineIn({ engines }: FileOutline, name: string): z.output<typeof engineOutline> | undefined {
  const all = Object.keys(engines).length > 0 ? engines : { [DEFAULT_ENGINE]: { type: 'duckdb' } };
  return Object.hasOwn(all, name) ? engineOutline.safeParse(all[name]).data : undefined;
}

/** The engine that has the snapshots of those that an engine computes. */
export function homeOf(file: FileOutline, name: string): string {
  const engine = engineIn(file, name);
  if (!engine || !isReadOnly(engine)) return name;
  const engines = Object.keys(file.engines).flatMap((each) => {
    const found = engineIn(file, each);
    return found ? [[each, found] as const] : [];
  });
  return engine.snapshots ?? defaultSnapshots(Object.fromEntries(engines), file.store);
}

/** Names of a file's engines, the default first. */
export function engineNames(engines: Readonly<Record<string, unknown>>): readonly string[] {
  const names = Object.keys(engines);
  return names.length > 0 ? names : [DEFAULT_ENGINE];
}

/** The key of an audience or computed trait, made from its name if not given (docs/wire.md). */
export function keyOf(computation: { readonly name: string; readonly key?: string | undefined }): string {
  // VIPs is one word.
  return computation.key || snakeCase(computation.name.replaceAll(/\b[A-Z]{2,}s\b/g, (word) => word.toLowerCase()));
}
