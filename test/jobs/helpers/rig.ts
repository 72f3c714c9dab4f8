import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { type OpenEngine, openEngine } from '../../../jobs/engines/open.ts';
import type { Engine } from '../../../jobs/engines/port.ts';
import { createSync, type JobLog, type Progress, type Sync, type SyncOptions } from '../../../jobs/index.ts';
import { createAccept } from '../../../src/accept.ts';
import type {
  AudienceConfig,
  EngineConfig,
  ExpectConfig,
  GuardConfig,
  TraitConfig,
} from '../../../src/config/config.ts';
import { type Destination, endpointId } from '../../../src/destination.ts';
import { type Clock, systemClock } from '../../../src/kernel/clock.ts';
import type { Claim, Store, Verdict } from '../../../src/store/port.ts';
import { openTestStore } from '../../helpers/store.ts';

export const NO_EXPECT: ExpectConfig = { freshness: null, minRows: null, maxChange: null, dbt: null };
export const NO_GUARD: GuardConfig = {
  maxExits: null,
  maxEntries: null,
  maxChanges: null,
  minMembers: 0,
  allowEmpty: true,
};

/** A configuration that tests change as they go. */
export interface TestConfig {
  folder: string;
  engines: Record<string, EngineConfig>;
  audiences: AudienceConfig[];
  traits: TraitConfig[];
  destinations: Destination[];
  hiddenValues?: ReadonlyMap<string, string>;
}

/** The body of a delivery. */
export interface Told {
  readonly userId: string;
  readonly traits: Record<string, unknown>;
  readonly timestamp: string;
  readonly context: { readonly personas: Record<string, unknown> };
}

interface Notice {
  readonly event: string;
  readonly message: string;
  readonly key?: string;
  readonly run?: string;
  readonly code?: string | null;
}

export interface Rig {
  readonly config: TestConfig;
  readonly store: Store;
  readonly sync: Sync;
  /** Writes to `notices`. */
  readonly log: JobLog;
  /** Held, failed and overdue runs, as logged. */
  readonly notices: Notice[];
  /** Called with each step of each run; tests replace it. */
  onProgress(step: Progress): void;
  time(): number;
  /** Lets time pass until then; an earlier time sets the clock back. */
  setTime(iso: string): void;
  /** Writes `FILE.csv` with these rows, which definitions read. */
  write(file: string, rows: readonly string[]): void;
  /** Posts everything pending; resolves to the messages of each destination, in order. */
  deliver(verdict?: (claim: Claim) => Verdict): Promise<Map<string, Told[]>>;
  /** Another process on the same store and engine. */
  another(changes?: Partial<SyncOptions>): Sync;
  readonly accept: SyncOptions['accept'];
  readonly clock: Clock;
}

export async function createRig(
  t: Test,
  options: { readonly engine?: EngineConfig; readonly maxQueued?: number } = {},
): Promise<Rig> {
  const folder = t.testdir({});
  // Callbacks of the clock and idle connections keep no process alive, so that a test that waits for them could end it.
  const awake = setInterval(() => {}, 60_000);
  t.teardown(() => clearInterval(awake));
  let now = Date.parse('2026-03-01T12:00:00Z');
  let passed = 0;
  const clock: Clock = {
    ...systemClock,
    now: () => now,
    monotonic: () => systemClock.monotonic() + passed,
    uptime: () => systemClock.uptime() + passed,
  };
  const config: TestConfig = {
    folder,
    engines: {
      lake: options.engine ?? duckdbAt(join(folder, 'audiences.duckdb')),
    },
    audiences: [],
    traits: [],
    destinations: [destination('crm')],
  };
  const store = await openTestStore(options.maxQueued ?? 1_000_000, clock);
  t.teardown(() => store.close());
  const notices: Notice[] = [];
  const noted = ({ event = '', ...fields }: Partial<Notice>, message: string) => {
    if (/^sync_(held|failed|overdue|empty)$/.test(event)) notices.push({ ...fields, event, message });
  };
  const log = { debug() {}, info() {}, warn: noted, error: noted };
  const accept = createAccept(store, () => config.destinations);
  const openKept = keepingOpen(t);
  const another: Rig['another'] = (changes = {}) =>
    createSync({
      store,
      accept,
      config: () => config,
      clock,
      log,
      openEngine: openKept,
      onProgress: (step) => rig.onProgress(step),
      ...changes,
    });
  const rig: Rig = {
    config,
    store,
    sync: another(),
    log,
    notices,
    onProgress() {},
    time: () => now,
    setTime: (iso) => {
      const time = Date.parse(iso);
      // Forward time passes, for the steady clock too; backward the clock is set.
      passed += Math.max(0, time - now);
      now = time;
    },
    write: (file, rows) => writeFileSync(join(folder, `${file}.csv`), `${rows.join('\n')}\n`),
    deliver: (verdict) => deliver(store, config, verdict),
    another,
    accept,
    clock,
  };
  return rig;
}

/** Engines by path, each with the folder of its SQL. */
const kept = new Map<string, { readonly folder: string; readonly engine: Promise<Engine> }>();

/**
 * Opening and closing its file takes DuckDB longer than most runs of a test: once opened, it stays open until the test ends,
 * removes it or looks up its files elsewhere.
 */
function keepingOpen(t: Test): OpenEngine {
  const opened = new Set<string>();
  t.teardown(() => Promise.all([...opened].map(letGo)));
  return async (config, options) => {
    if (config.type !== 'duckdb' || config.path === ':memory:') return openEngine(config, options);
    const { path } = config;
    if (!existsSync(path) || kept.get(path)?.folder !== options.folder) await letGo(path);
    const engine = await openEngine(config, options);
    if (!kept.has(path) && existsSync(path)) {
      opened.add(path);
      kept.set(path, { folder: options.folder, engine: openEngine(config, { ...options, readOnly: false }) });
    }
    return engine;
  };
}

async function letGo(path: string): Promise<void> {
  const engine = await kept.get(path)?.engine;
  kept.delete(path);
  await engine?.close();
}

async function deliver(
  store: Store,
  config: TestConfig,
  verdict: (claim: Claim) => Verdict = () => ({ kind: 'delivered' }),
): Promise<Map<string, Told[]>> {
  const told = new Map<string, Told[]>(config.destinations.map(({ name }) => [name, []]));
  const owner = await store.join(60_000);
  for (const { name } of config.destinations) {
    for (;;) {
      const claims = (await store.claim(owner, [{ destination: name, limit: 1000, order: 'usual' }])).claims.flat();
      if (claims.length === 0) break;
      const settlements = claims.map((claim) => ({ claim, verdict: verdict(claim), attempts: [] }));
      for (const settlement of settlements) {
        if (settlement.verdict.kind === 'delivered') told.get(name)?.push(JSON.parse(settlement.claim.body) as Told);
      }
      await store.settle(owner, settlements);
    }
  }
  await store.leave(owner);
  return told;
}

export function duckdbAt(path: string): EngineConfig {
  return { type: 'duckdb', path, memoryLimit: null, threads: 1, concurrency: 2 };
}

export function destination(name: string, sources: readonly string[] = ['personas']): Destination {
  const url = `https://${name}.example/hooks`;
  return {
    name,
    enabled: true,
    sources,
    secrets: [],
    endpoints: [{ id: endpointId(name, url), url, headers: {} }],
    require: 'any',
    ratePerSecond: null,
  };
}

export function audience(key: string, sql: string, changes: Partial<AudienceConfig> = {}): AudienceConfig {
  return { ...computation(key, sql), kind: 'audience', ...changes };
}

export function trait(key: string, sql: string, changes: Partial<TraitConfig> = {}): TraitConfig {
  return { ...computation(key, sql), kind: 'trait', ...changes };
}

function computation(key: string, sql: string) {
  return {
    name: key,
    key,
    engine: 'lake',
    source: 'personas',
    schedule: null,
    timezone: null,
    sql,
    timeout: 3_600_000,
    paused: false,
    guard: NO_GUARD,
    expect: NO_EXPECT,
  };
}

/** `user: value` of one trait, from the messages sent. */
export function values(told: readonly Told[] | undefined, key: string): Record<string, unknown> {
  return Object.fromEntries((told ?? []).map(({ userId, traits }) => [userId, traits[key]]));
}
