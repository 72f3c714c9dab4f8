import type { ConcernKind, RuleSettings } from '../concern.ts';
import type { Condition } from '../definition/conditions.ts';
import type { TraitValue } from '../definition/definition.ts';
import type { Destination, Source } from '../destination.ts';
import type { ShownMistake } from './mistakes.ts';

/** How long, and how much, messages that were delivered are kept. */
interface KeptMessagesConfig {
  /** For how long, in milliseconds; 0 keeps none. */
  readonly keep: number;
  /** Bytes that they may take. */
  readonly maxSize: number;
}

export interface Config {
  /** Absolute folder of the configuration file; relative paths resolve against it. */
  readonly folder: string;
  /** When the file was last written, in milliseconds since 1970; null for a text that is none. */
  readonly changedAt: number | null;
  readonly serviceName: string;
  readonly store: StoreConfig;
  readonly listen: {
    readonly host: string;
    readonly port: number;
    /** Addresses and ranges of proxies whose forwarded headers count. */
    readonly trustedProxies: readonly string[];
  };
  readonly network: NetworkConfig;
  /** Without any token the admin routes answer on this machine only. */
  readonly admin: { readonly tokens: readonly AdminToken[] };
  readonly sources: readonly Source[];
  readonly destinations: readonly Destination[];
  readonly engines: Readonly<Record<string, EngineConfig>>;
  readonly audiences: readonly AudienceConfig[];
  readonly traits: readonly TraitConfig[];
  readonly delivery: {
    /** How long no process must have known a destination before its deliveries become dead letters, in milliseconds. */
    readonly removedAfter: number;
  };
  readonly messages: KeptMessagesConfig;
  /** How long attempts are kept, in milliseconds. */
  readonly attemptRetention: number;
  /** How long runs, deletion requests that are over and the audit log are kept, in milliseconds. */
  readonly recordRetention: { readonly runs: number; readonly regulations: number; readonly audit: number };
  /** The log of what is collected; null where none is kept. */
  readonly eventLog: EventLogConfig | null;
  /** Who is alerted, and to what. */
  readonly alerts: AlertsConfig;
  /** Values that variables put into SQL, with the variables' names. No error shows them. */
  readonly hiddenValues: ReadonlyMap<string, string>;
  readonly logLevel: string;
  /** Things that are allowed, and most likely not meant. */
  readonly warnings: readonly ShownMistake[];
}

/** Rights of a token: look, change what runs, delete people. */
export const RIGHTS = ['read', 'operate', 'delete'] as const;
export type Right = (typeof RIGHTS)[number];

/** Somebody who may use the admin routes. */
export interface AdminToken {
  /** Stands in the audit log. */
  readonly name: string;
  readonly token: string;
  readonly may: readonly Right[];
}

/** Forms of notices: a track call for programs, or what the hooks of a chat take. */
export const ALERT_FORMATS = ['json', 'slack', 'discord', 'teams'] as const;

/** Somebody who hears of what needs a person. */
export interface AlertHook {
  readonly name: string;
  readonly url: string;
  readonly secret: string | null;
  readonly format: (typeof ALERT_FORMATS)[number];
}

interface AlertRule {
  readonly isOn: boolean;
  /** How long it must last before people hear of it, in milliseconds. */
  readonly after: number;
}

/** Settings that are durations are in milliseconds. */
export type AlertRules = { readonly [Kind in ConcernKind]: AlertRule & RuleSettings<Kind> };

/** Alerts: their rules, and who gets them. */
export interface AlertsConfig {
  /** Whether the file asks for alerts; the pages show what needs a person in any case. */
  readonly isOn: boolean;
  readonly hooks: readonly AlertHook[];
  /** Where people reach the pages, without a slash at its end. */
  readonly link: string | null;
  /** How long alerts that are over are kept, in milliseconds. */
  readonly keep: number;
  readonly rules: AlertRules;
}

export interface EventLogConfig {
  /** How long events are kept, in milliseconds; whole days of receipt go at once. */
  readonly keep: number;
  /** Absolute folder of its files. */
  readonly path: string;
  /** Whose events; null for all. */
  readonly sources: readonly string[] | null;
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
  /** PEM text of certificate authorities trusted besides the public ones. */
  readonly ca: readonly string[];
  /** An HTTP proxy that all deliveries go through. */
  readonly proxy: string | null;
}

export type EngineConfig = {
  /** Runs at once at most. */
  readonly concurrency: number;
} & (DuckdbConfig | PostgresConfig | ClickhouseConfig | ModuleConfig);

export interface DuckdbConfig {
  readonly type: 'duckdb';
  readonly path: string;
  readonly memoryLimit: string | null;
  readonly threads: number | null;
}

export interface PostgresConfig {
  readonly type: 'postgres';
  readonly url: string;
}

export interface ClickhouseConfig {
  readonly type: 'clickhouse';
  /** Of its HTTP interface, with the user and the database of definitions. */
  readonly url: string;
  /** Where the tables of Rollcall are. */
  readonly database: string;
  /** Settings of ClickHouse for all that is asked of it. */
  readonly settings: Readonly<Record<string, string | number | boolean>>;
}

/** An engine that somebody else wrote. */
export interface ModuleConfig {
  readonly type: 'module';
  /** Absolute path, or the name of a package. */
  readonly module: string;
  readonly options: Readonly<Record<string, unknown>>;
}

interface ComputationConfig {
  readonly name: string;
  /** The trait's key in bodies; for a trait query of several columns, the columns are the keys. */
  readonly key: string;
  readonly engine: string;
  readonly source: string;
  /** node-cron expression; null means only `sync --once` runs it. */
  readonly schedule: string | null;
  readonly timezone: string | null;
  /** Absent where a short definition stands in its place. */
  readonly sql?: string;
  /** How long its SQL may take, in milliseconds. */
  readonly timeout: number;
  readonly paused: boolean;
  /** Whether it is computed as events come, in place of a schedule. */
  readonly live?: boolean;
  readonly guard: GuardConfig;
  readonly expect: ExpectConfig;
}

export interface AudienceConfig extends ComputationConfig {
  readonly kind: 'audience';
  /** Its short definition, in place of SQL. */
  readonly when?: Condition;
}

export interface TraitConfig extends ComputationConfig {
  readonly kind: 'trait';
  /** Its short definition, in place of SQL. */
  readonly value?: TraitValue;
}

/** The guard: how much may change in one run without a person's approval. */
export interface GuardConfig {
  readonly maxExits: Threshold | null;
  readonly maxEntries: Threshold | null;
  /** Thresholds apply only if the audience had at least this many members before the run. */
  readonly minMembers: number;
  readonly allowEmpty: boolean;
}

/** Expectations: how a source must look to be believed. */
export interface ExpectConfig {
  /** The greatest value of a column must be no older than this, in milliseconds. */
  readonly freshness: { readonly column: string; readonly within: number } | null;
  readonly minRows: number | null;
  /** Users who enter, leave or change their value. */
  readonly maxChange: Threshold | null;
}

/** A count, or a percentage of the members before the run. */
export type Threshold = { readonly count: number } | { readonly percent: number };
