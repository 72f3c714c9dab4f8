import { resolve } from 'node:path';
import mapValues from 'lodash/mapValues.js';
import { aboutOf } from '../about.ts';
import { type Destination, endpointId, type Source, type Wants } from '../destination.ts';
import { alertsOf } from './alerts.ts';
import {
  type AdminToken,
  type AudienceConfig,
  type BucketConfig,
  type Config,
  type EngineConfig,
  type EventLogConfig,
  type ExpectConfig,
  type GuardConfig,
  RIGHTS,
  type StoreConfig,
  type TableConfig,
  type TraitConfig,
} from './config.ts';
import { readCertificate } from './file-references.ts';
import type { Path } from './mistakes.ts';
import { DEFAULT_SNAPSHOTS, defaultSnapshots, engineNames, IMPLIED_SNAPSHOTS, isReadOnly, keyOf } from './outline.ts';
import type { ConfigFile } from './schema.ts';
import { formatOf, type TableSettings } from './table-schema.ts';
import type { Environment } from './variables.ts';

const PER_DESTINATION = 1_000_000;

type Normalised = Omit<
  Config,
  'sourceFiles' | 'changedAt' | 'warnings' | 'hiddenValues' | 'unset' | 'places' | 'written' | 'outline'
>;

/**
 * Makes the configuration that the program uses.
 *
 * @param folderOf - the folder of the file that has a part
 * @param env - has credentials of the usual names
 */
export function normalise(
  file: ConfigFile,
  folder: string,
  folderOf: (path: Path) => string = () => folder,
  env: Environment = {},
): Normalised {
  const store = storeOf(file.store, folder);
  const [defaultEngine = ''] = engineNames(file.engines);
  return {
    folder,
    serviceName: file.serviceName,
    store,
    files: file.files,
    listen: file.listen,
    network: {
      allow: file.network.allow.map((range) => (range.includes('/') ? range : wholeAddress(range))),
      ca: file.network.ca.map((path) => readCertificate(path, folder)),
      proxy: file.network.proxy ?? null,
    },
    admin: {
      tokens: tokensOf(file.admin),
      tokenFile: resolve(folder, file.admin.tokenFile),
      openMetrics: file.admin.openMetrics,
    },
    sources: file.sources.map(sourceOf),
    destinations: file.destinations.map(destinationOf),
    engines: enginesOf(file.engines, defaultEngine, store.url, folder),
    audiences: file.audiences.map((item, index) => audienceOf(item, defaultEngine, folderOf(['audiences', index]))),
    traits: file.traits.map((item, index) => traitOf(item, defaultEngine, folderOf(['traits', index]))),
    delivery: file.delivery,
    messages: file.messages,
    attemptRetention: file.attempts.keep,
    recordRetention: { runs: file.runs.keep, regulations: file.regulations.keep, audit: file.audit.keep },
    eventLog: file.eventLog ? eventLogOf(file.eventLog, folder, env) : null,
    alerts: alertsOf(file.alerts),
    logLevel: file.log.level,
  };
}

/** Adds the single token to the list, with all rights. */
function tokensOf({ token, tokens }: ConfigFile['admin']): readonly AdminToken[] {
  return [...(token === undefined ? [] : [{ name: 'admin', token, may: RIGHTS }]), ...tokens];
}

type WrittenLog = NonNullable<ConfigFile['eventLog']>;

function eventLogOf(written: WrittenLog, folder: string, env: Environment): EventLogConfig {
  const { keep, path, sources = null, cache } = written;
  if (!path.startsWith('s3://')) return { keep, path: resolve(folder, path), sources };
  return { keep, path: resolve(folder, cache.path), sources, bucket: bucketOf(written, env) };
}

function bucketOf({ path, region, endpoint, credentials, cache }: WrittenLog, env: Environment): BucketConfig {
  const [bucket = '', ...prefix] = path.slice('s3://'.length).split('/');
  const inRegion = region ?? env['AWS_REGION'] ?? env['AWS_DEFAULT_REGION'] ?? 'us-east-1';
  const { AWS_ACCESS_KEY_ID: keyId, AWS_SECRET_ACCESS_KEY: secret, AWS_SESSION_TOKEN: token } = env;
  const given = credentials ?? (keyId && secret ? { keyId, secret, token } : null);
  return {
    bucket,
    prefix: prefix.filter((part) => part !== '').join('/'),
    endpoint: endpoint ?? `https://s3.${inRegion}.amazonaws.com`,
    region: inRegion,
    credentials: given && { ...given, token: given.token ?? null },
    cacheBytes: cache.maxSize,
  };
}

function storeOf(store: ConfigFile['store'], folder: string): StoreConfig {
  const { url, maxQueued } = typeof store === 'string' ? { url: store, maxQueued: PER_DESTINATION } : store;
  return { url: absoluteUrl(url, folder), maxQueued };
}

function absoluteUrl(url: string, folder: string): string {
  const path = url.startsWith('sqlite:') ? url.slice('sqlite:'.length) : null;
  return path === null || path === ':memory:' ? url : `sqlite:${resolve(folder, path)}`;
}

function wholeAddress(address: string): string {
  return `${address}/${address.includes(':') ? 128 : 32}`;
}

function sourceOf({ rateLimit, ip, ...source }: ConfigFile['sources'][number]): Source {
  const limited = rateLimit === undefined ? source : { ...source, ratePerSecond: rateLimit };
  return ip === 'keep' ? limited : { ...limited, ip };
}

function destinationOf(destination: ConfigFile['destinations'][number]): Destination {
  const { name, enabled, sources, types, events, audiences, membership, columns, require, webhookUrl } = destination;
  const webhooks =
    destination.webhooks ?? (webhookUrl === undefined ? [] : [{ url: webhookUrl, headers: {}, batch: undefined }]);
  return {
    name,
    enabled,
    sources: [...new Set(sources)],
    ...(types || events || audiences ? { wants: wantsOf(destination) } : {}),
    ...(destination.backfill === 'skip' && { backfill: destination.backfill }),
    ...(membership !== 'identify' && { membership }),
    ...(columns && { columns }),
    secrets: destination.sharedSecret ?? [],
    signing: destination.signing,
    endpoints: webhooks.map(({ url, headers, batch }) => {
      const endpoint = { id: endpointId(name, url), url, headers };
      return batch ? { ...endpoint, batch } : endpoint;
    }),
    require,
    ratePerSecond: destination.rateLimit ?? null,
    ...aboutOf(destination),
  };
}

function wantsOf({ types, events, audiences }: ConfigFile['destinations'][number]): Wants {
  return { ...(types && { types }), ...(events && { events }), ...(audiences && { audiences }) };
}

function tableOf({ files, format, dateFormat, timestampFormat, ...table }: TableSettings, folder: string): TableConfig {
  return {
    ...table,
    files: files.map((pattern) => (/^\w+:\/\//.test(pattern) ? pattern : resolve(folder, pattern))),
    format: format ?? formatOf(files[0]) ?? 'csv',
    dateFormat: dateFormat ?? null,
    timestampFormat: timestampFormat ?? null,
  };
}

function enginesOf(
  engines: ConfigFile['engines'],
  defaultEngine: string,
  store: string,
  folder: string,
): Config['engines'] {
  if (Object.keys(engines).length === 0) return { [defaultEngine]: embeddedEngine(folder) };
  const home = defaultSnapshots(engines, store);
  const given = Object.fromEntries(
    Object.entries(engines).map(([name, engine]) => [name, engineOf(engine, home, folder)]),
  );
  // Also if no engine uses it any more: snapshots move from it.
  const isImplied =
    Object.values(engines).some(isReadOnly) && home === IMPLIED_SNAPSHOTS && !Object.hasOwn(given, home);
  if (!isImplied) return given;
  const implied: EngineConfig = store.startsWith('sqlite:')
    ? embeddedEngine(folder)
    : { type: 'postgres', url: store, concurrency: 4 };
  return { ...given, [home]: implied };
}

function engineOf(engine: ConfigFile['engines'][string], home: string, folder: string): EngineConfig {
  switch (engine.type) {
    case 'mysql':
    case 'trino':
    case 'snowflake':
    case 'bigquery':
      return { ...engine, snapshots: engine.snapshots ?? home };
    case 'sqlite':
      return { ...engine, path: resolve(folder, engine.path), snapshots: engine.snapshots ?? home };
    case 'postgres':
      return withSnapshots(engine);
    case 'clickhouse':
      return withSnapshots(engine);
    case 'module':
      return withSnapshots({ ...engine, module: moduleOf(engine.module, folder) });
    case 'duckdb':
      return {
        type: 'duckdb',
        concurrency: engine.concurrency,
        path: resolve(folder, engine.path),
        memoryLimit: engine.memoryLimit ?? null,
        threads: engine.threads ?? null,
        tables: mapValues(engine.tables, (table) => tableOf(table, folder)),
        extensions: engine.extensions,
        secrets: engine.secrets,
        schema: engine.schema,
        attach: mapValues(engine.attach, (each) =>
          'path' in each ? { ...each, path: resolve(folder, each.path) } : each,
        ),
      };
  }
}

function withSnapshots<E extends { readonly snapshots?: string | undefined }>({ snapshots, ...engine }: E) {
  return snapshots === undefined ? engine : { ...engine, snapshots };
}

/** Resolves a path like all others. Anything that does not look like a path is a package. */
function moduleOf(module: string, folder: string): string {
  return /^\.{0,2}\//.test(module) ? resolve(folder, module) : module;
}

function embeddedEngine(folder: string): EngineConfig {
  const path = resolve(folder, DEFAULT_SNAPSHOTS);
  return { type: 'duckdb', concurrency: 2, path, memoryLimit: null, threads: null };
}

/** The settings that audiences and traits share. */
type Computed = Omit<ConfigFile['audiences'][number], 'when' | 'with' | 'sends'>;

function columnsOf(given: NonNullable<ConfigFile['audiences'][number]['with']>): NonNullable<AudienceConfig['with']> {
  return Array.isArray(given) ? Object.fromEntries(given.map((name) => [name, {}])) : given;
}

export function audienceOf(
  item: ConfigFile['audiences'][number],
  defaultEngine: string,
  folder: string,
): AudienceConfig {
  return {
    kind: 'audience',
    ...computationOf(item, defaultEngine, folder),
    guard: guardOf(item.guard, DEFAULT_GUARD.maxChanges),
    ...(item.when && { when: item.when }),
    ...(item.with && { with: columnsOf(item.with) }),
    ...(item.sends === 'any' && { sendsColumns: true }),
  };
}

export function traitOf(item: ConfigFile['traits'][number], defaultEngine: string, folder: string): TraitConfig {
  return { kind: 'trait', ...computationOf(item, defaultEngine, folder), ...(item.value && { value: item.value }) };
}

function computationOf(item: Computed, defaultEngine: string, folder: string): Omit<AudienceConfig, 'kind' | 'when'> {
  return {
    name: item.name,
    key: keyOf(item),
    ...aboutOf(item),
    engine: item.engine ?? defaultEngine,
    source: item.source,
    schedule: item.schedule ?? null,
    timezone: item.timezone ?? null,
    ...(item.sql === undefined ? {} : { sql: item.sql }),
    ...(item.dbt && { dbt: { ...item.dbt, project: resolve(folder, item.dbt.project) } }),
    timeout: item.timeout,
    paused: item.paused,
    ...(item.live && { live: true }),
    ...(item.allowPlaceholders && { allowPlaceholders: true }),
    guard: guardOf(item.guard),
    expect: expectOf(item.expect),
  };
}

function expectOf({
  freshness,
  minRows,
  maxChange,
  dbt,
  within,
}: ConfigFile['audiences'][number]['expect']): ExpectConfig {
  return {
    freshness: freshness ?? null,
    minRows: minRows ?? null,
    maxChange: maxChange ?? null,
    dbt: dbt === undefined ? null : { within: within ?? null },
  };
}

/** Holds what would remove most members of an audience that is not small. */
const DEFAULT_GUARD: GuardConfig = {
  maxExits: { percent: 50 },
  maxEntries: null,
  maxChanges: { percent: 50 },
  minMembers: 100,
  allowEmpty: false,
  isDefault: true,
};

/** @param mostChanges - the limit if none is written */
function guardOf(
  guard: ConfigFile['audiences'][number]['guard'],
  mostChanges: GuardConfig['maxChanges'] = null,
): GuardConfig {
  if (guard === undefined) return { ...DEFAULT_GUARD, maxChanges: mostChanges };
  if (guard === 'off') {
    return { maxExits: null, maxEntries: null, maxChanges: null, minMembers: 0, allowEmpty: false };
  }
  const { maxExits = null, maxEntries = null, maxChanges = mostChanges, minMembers, allowEmpty } = guard;
  if (maxExits || maxEntries) return { maxExits, maxEntries, maxChanges, minMembers: minMembers ?? 0, allowEmpty };
  const { maxExits: most, minMembers: least } = DEFAULT_GUARD;
  return { maxExits: most, maxEntries, maxChanges, minMembers: minMembers ?? least, allowEmpty };
}
