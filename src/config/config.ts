import type { Annotations } from '../about.ts';
import type { ConcernKind, RuleSettings } from '../concern.ts';
import type { Condition } from '../definition/conditions.ts';
import type { TraitValue } from '../definition/definition.ts';
import type { Destination, Source } from '../destination.ts';
import type { EngineSettings } from './engine-schema.ts';
import type { Threshold } from './formats.ts';
import type { FilePlace, Path, ShownMistake } from './mistakes.ts';
import type { FileOutline } from './outline.ts';
import type { TableSettings } from './table-schema.ts';

/** Limits for keeping delivered messages. */
interface KeptMessagesConfig {
  /** Milliseconds to keep them; 0 keeps none. */
  readonly keep: number;
  /** The most bytes they may take. */
  readonly maxSize: number;
}

export interface Config {
  /** Absolute folder of the configuration file; relative paths resolve against it. */
  readonly folder: string;
  /** Absolute paths of the configuration, of the files that it includes, and of its SQL files. */
  readonly sourceFiles: readonly string[];
  /** Time of their last change, in milliseconds since 1970; null for a text without a file. */
  readonly changedAt: number | null;
  readonly serviceName: string;
  readonly store: StoreConfig;
  readonly files: {
    /** True if the group may read the files that Rollcall makes. */
    readonly group: boolean;
  };
  readonly listen: {
    readonly host: string;
    readonly port: number;
    /** Addresses and ranges of proxies whose forwarded headers count. */
    readonly trustedProxies: readonly string[];
  };
  readonly network: NetworkConfig;
  readonly admin: {
    readonly tokens: readonly AdminToken[];
    /** Absolute path of the file with the token, if there are no others. */
    readonly tokenFile: string;
    /** True if `/metrics` needs no token. */
    readonly openMetrics: boolean;
  };
  readonly sources: readonly Source[];
  readonly destinations: readonly Destination[];
  readonly engines: Readonly<Record<string, EngineConfig>>;
  readonly audiences: readonly AudienceConfig[];
  readonly traits: readonly TraitConfig[];
  readonly delivery: {
    /** Milliseconds until the deliveries of a destination that no process knows become dead letters. */
    readonly removedAfter: number;
  };
  readonly messages: KeptMessagesConfig;
  /** Milliseconds to keep attempts. */
  readonly attemptRetention: number;
  /** Milliseconds to keep runs, completed deletion requests and the audit log. */
  readonly recordRetention: { readonly runs: number; readonly regulations: number; readonly audit: number };
  /** The log of collected events; null if none is kept. */
  readonly eventLog: EventLogConfig | null;
  readonly alerts: AlertsConfig;
  /** Values of variables in SQL, with the variables' names. Errors hide them. */
  readonly hiddenValues: ReadonlyMap<string, string>;
  /** Variables that are not set, if they may be. Other values stand in for them. */
  readonly unset: readonly UnsetVariable[];
  /** The places of audiences and traits in the files, by key. */
  readonly places: ReadonlyMap<string, FilePlace>;
  /** The definitions of audiences and traits as they are written, without values of variables, by key. */
  readonly written: ReadonlyMap<string, WrittenDefinition>;
  /** The parts that rules between them need, for drafts. */
  readonly outline: FileOutline;
  readonly logLevel: string;
  /** Settings that are allowed but probably mistakes. */
  readonly warnings: readonly ShownMistake[];
}

/** SQL, or the YAML of a short definition. */
export interface WrittenDefinition {
  readonly language: 'sql' | 'yaml';
  readonly text: string;
  readonly section: 'audiences' | 'traits';
  /** The whole item, with the text of its SQL file. */
  readonly item: Readonly<Record<string, unknown>>;
}

export interface UnsetVariable {
  readonly path: Path;
  readonly name: string;
}

/** Rights that `admin.tokens` gives: to read, to operate, to delete people. */
export const NAMED_RIGHTS = ['read', 'operate', 'delete'] as const;
/** All rights. Only the token that may do everything may query with SQL of its own. */
export const RIGHTS = [...NAMED_RIGHTS, 'query'] as const;
export type Right = (typeof RIGHTS)[number];

/** A token for the admin routes. */
export interface AdminToken {
  /** The name in the audit log. */
  readonly name: string;
  readonly token: string;
  readonly may: readonly Right[];
}

/** Formats of alerts: a track call for programs, or the format of a chat's hooks. */
export const ALERT_FORMATS = ['json', 'slack', 'discord', 'teams'] as const;

/** A hook that receives alerts. */
export interface AlertHook {
  readonly name: string;
  readonly url: string;
  readonly secret: string | null;
  readonly format: (typeof ALERT_FORMATS)[number];
}

interface AlertRule {
  readonly isOn: boolean;
  /** Milliseconds that a concern must last before an alert is sent. */
  readonly after: number;
}

/** Durations are in milliseconds. */
export type AlertRules = { readonly [Kind in ConcernKind]: AlertRule & RuleSettings<Kind> };

/** The rules of alerts, and the hooks that receive them. */
export interface AlertsConfig {
  /** True if the file has alerts. The pages show concerns in any case. */
  readonly isOn: boolean;
  readonly hooks: readonly AlertHook[];
  /** Public URL of the pages, without a slash at its end. */
  readonly link: string | null;
  /** Milliseconds to keep past alerts. */
  readonly keep: number;
  readonly rules: AlertRules;
}

export interface EventLogConfig {
  /** Milliseconds to keep events. Whole days of receipt are removed at once. */
  readonly keep: number;
  /** Absolute folder of its files, or of copies of those in a bucket. */
  readonly path: string;
  /** Ids of sources to log; null for all. */
  readonly sources: readonly string[] | null;
  /** Absent if the files are in the folder. */
  readonly bucket?: BucketConfig;
}

/** The place of the log in object storage. */
export interface BucketConfig {
  readonly bucket: string;
  /** Without slashes at its ends; may be empty. */
  readonly prefix: string;
  readonly endpoint: string;
  readonly region: string;
  /** Null if nobody has set any. */
  readonly credentials: { readonly keyId: string; readonly secret: string; readonly token: string | null } | null;
  /** Bytes of copies in the folder. */
  readonly cacheBytes: number;
}

export interface StoreConfig {
  /** `sqlite:` with an absolute path (or `:memory:`), or `postgres://…`. */
  readonly url: string;
  /** Untried deliveries per destination at most, without notices; what is more becomes a dead letter `queue_full`. */
  readonly maxQueued: number;
}

export interface NetworkConfig {
  /** CIDR ranges that endpoints may resolve to although they are private. */
  readonly allow: readonly string[];
  /** PEM text of certificate authorities trusted in addition to the public ones. */
  readonly ca: readonly string[];
  /** The HTTP proxy for all deliveries. */
  readonly proxy: string | null;
}

export type EngineConfig = {
  /** The most concurrent runs. */
  readonly concurrency: number;
  /** The engine that has its snapshots; absent for an engine that is written to. */
  readonly snapshots?: string;
} & (DuckdbConfig | PostgresConfig | ClickhouseConfig | ModuleConfig | ReaderConfig);

/** Databases that are never written to. */
type ReaderConfig = MysqlConfig | SqliteConfig | TrinoConfig | SnowflakeConfig | BigqueryConfig;

export interface DuckdbConfig {
  readonly type: 'duckdb';
  readonly path: string;
  readonly memoryLimit: string | null;
  readonly threads: number | null;
  /** The schema of Rollcall's tables; `rollcall` unless given. */
  readonly schema?: string | undefined;
  readonly tables?: Readonly<Record<string, TableConfig>>;
  readonly extensions?: readonly string[];
  /** Settings of secrets by name, each with its `type`. */
  readonly secrets?: Readonly<Record<string, SecretConfig>>;
  readonly attach?: Readonly<Record<string, AttachedConfig>>;
}

/** `files` are absolute paths, or URLs, with wildcards. */
export type TableConfig = Omit<TableSettings, 'format' | 'dateFormat' | 'timestampFormat'> & {
  readonly format: 'csv' | 'json' | 'parquet';
  readonly dateFormat: string | null;
  readonly timestampFormat: string | null;
};

export type SecretConfig = EngineSettings<'duckdb'>['secrets'][string];
export type AttachedConfig = EngineSettings<'duckdb'>['attach'][string];

export type PostgresConfig = EngineSettings<'postgres'>;
export type MysqlConfig = EngineSettings<'mysql'>;
export type SqliteConfig = EngineSettings<'sqlite'>;
export type TrinoConfig = EngineSettings<'trino'>;
export type SnowflakeConfig = EngineSettings<'snowflake'>;
export type BigqueryConfig = EngineSettings<'bigquery'>;
export type ClickhouseConfig = EngineSettings<'clickhouse'>;
/** A third-party engine, or a reader if it has `snapshots`. */
export type ModuleConfig = EngineSettings<'module'>;

/** A model of dbt, whose relation is known from the project's files at each run. */
export interface DbtModel {
  /** Absolute folder of the project. */
  readonly project: string;
  /** A name or unique id. */
  readonly model: string;
  /** The checksum of the model's own file, once the project was read. */
  readonly checksum?: string;
}

interface ComputationConfig extends Annotations {
  readonly name: string;
  /** The trait's key in bodies. If a trait's query has several columns, their names are the keys. */
  readonly key: string;
  readonly engine: string;
  readonly source: string;
  /** node-cron expression; null if only `sync --once` runs it. */
  readonly schedule: string | null;
  readonly timezone: string | null;
  /** Absent if there is a short definition, or a model of dbt. */
  readonly sql?: string;
  readonly dbt?: DbtModel;
  /** Milliseconds that its SQL may take. */
  readonly timeout: number;
  readonly paused: boolean;
  /** True if it is computed as events arrive, without a schedule. */
  readonly live?: boolean;
  /** True if ids that mean nobody may be members; absent for false. */
  readonly allowPlaceholders?: boolean;
  readonly guard: GuardConfig;
  readonly expect: ExpectConfig;
}

export interface AudienceConfig extends ComputationConfig {
  readonly kind: 'audience';
  /** The columns that go with changes; for a short definition each with the trait that it is. */
  readonly with?: Readonly<Record<string, { readonly trait?: string }>>;
  /** True if a change of columns alone is sent. */
  readonly sendsColumns?: boolean;
  /** The short definition, instead of SQL. */
  readonly when?: Condition;
}

export interface TraitConfig extends ComputationConfig {
  readonly kind: 'trait';
  /** The short definition, instead of SQL. */
  readonly value?: TraitValue;
}

/** The guard's limits on changes in one run without a person's approval. */
export interface GuardConfig {
  readonly maxExits: Threshold | null;
  readonly maxEntries: Threshold | null;
  /** Members with other values or columns. */
  readonly maxChanges: Threshold | null;
  /** Thresholds apply only to audiences with at least this many members before the run. */
  readonly minMembers: number;
  readonly allowEmpty: boolean;
  /** True if none is written. It then judges a live audience only when its definition was edited. */
  readonly isDefault?: boolean;
}

/** Checks that a source must pass before its result is used. */
export interface ExpectConfig {
  /** The greatest value of a column must be no older than this, in milliseconds. */
  readonly freshness: { readonly column: string; readonly within: number } | null;
  readonly minRows: number | null;
  /** Users who enter, leave or change their value. */
  readonly maxChange: Threshold | null;
  /** The last build of the dbt model must have passed, and be no older than this, in milliseconds. */
  readonly dbt: { readonly within: number | null } | null;
}
