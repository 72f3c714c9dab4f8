import { RollcallError } from '../../src/kernel/errors.ts';
import { nothingNamed } from '../../src/kernel/spelling.ts';
import type { AudienceRecord, Records } from '../../src/store/port.ts';
import { type Computation, computations, type SyncConfig } from '../audience-or-trait.ts';
import { contentHash, definitionHash, definitionSql, withModels } from '../definition-sql.ts';
import { buildFault } from '../engines/dbt/models.ts';
import { LIVE_ENGINE } from '../live/definitions.ts';
import { hasEngine } from '../open-engines.ts';
import type { Subject } from './run-context.ts';
import { isFirst } from './run-record.ts';

/** The subjects of syncs: configured ones, and those that the store still knows. */
export interface Subjects {
  /**
   * The configured subjects, or those of these keys, except paused ones.
   *
   * @throws RollcallError `unknown_audience`
   */
  selected(keys?: readonly string[]): readonly Subject[];
  /** As `selected`, but includes paused ones if keys are given. */
  named(keys?: readonly string[]): readonly Subject[];
  /** @throws RollcallError `unknown_audience` */
  find(key: string): Promise<Subject>;
  /** As `find`, but with the engine that has the snapshot, if that is another one and still configured. */
  findWhereItLies(key: string): Promise<Subject>;
  /** All configured subjects, then orphans, each with the engine that has its snapshot, without definitions. */
  everyone(): Promise<readonly Subject[]>;
  /** The audience that a new one was renamed from: no longer configured, with the same definition. */
  formerSelf(subject: Subject): Promise<Subject | null>;
  /** Audiences that destinations may have but are no longer configured, except retired ones. */
  orphans(): Promise<readonly AudienceRecord[]>;
  /** Retired audiences that are still remembered. */
  ended(): Promise<readonly AudienceRecord[]>;
}

export function createSubjects(
  store: Pick<Records, 'audience' | 'audiences' | 'runs'>,
  config: () => SyncConfig,
): Subjects {
  async function find(key: string): Promise<Subject> {
    const computation = computations(config()).find((candidate) => candidate.key === key);
    if (computation) return configured(computation, config());
    const record = await store.audience(key);
    if (record) return orphan(record);
    throw unknownAudience([key], await knownKeys());
  }

  async function knownKeys(): Promise<readonly string[]> {
    const configured = computations(config()).map((computation) => computation.key);
    return [...configured, ...(await orphans()).map((record) => record.key)];
  }

  async function unconfigured(): Promise<readonly AudienceRecord[]> {
    const known = new Set(computations(config()).map(({ key }) => key));
    return (await store.audiences()).filter(({ key }) => !known.has(key));
  }

  async function believed(): Promise<readonly AudienceRecord[]> {
    const found: AudienceRecord[] = [];
    for (const record of await unconfigured()) if (await mayBeBelieved(record, store)) found.push(record);
    return found;
  }

  /** Leaves out audiences that were never computed completely: no destination has them. */
  async function orphans(): Promise<readonly AudienceRecord[]> {
    return (await believed()).filter(({ endedAt, lastRunAt }) => endedAt === null && lastRunAt !== null);
  }

  /** @throws RollcallError `unknown_audience` */
  function computed(keys: readonly string[]): readonly Computation[] {
    const all = computations(config());
    const known = all.map(({ key }) => key);
    const unknown = keys.filter((key) => !known.includes(key));
    if (unknown.length > 0) throw unknownAudience(unknown, known);
    return keys.length === 0 ? all : all.filter(({ key }) => keys.includes(key));
  }

  const asSubject = (computation: Computation) => configured(computation, config());

  const selected = (keys: readonly string[] = []) =>
    computed(keys)
      .filter(({ paused }) => !paused)
      .map(asSubject);

  return {
    selected,
    named: (keys = []) => (keys.length === 0 ? selected() : computed(keys).map(asSubject)),
    find,
    async findWhereItLies(key) {
      const subject = await find(key);
      const engine = (await store.audience(key))?.engine;
      return engine !== undefined && hasEngine(engine, config()) ? { ...subject, engine } : subject;
    },
    async everyone() {
      const places = new Map((await store.audiences()).map(({ key, engine }) => [key, engine]));
      const own = computations(config()).map((each) => ({ ...each, definition: null, engine: homeOf(each, config()) }));
      return [...own, ...(await orphans()).map(orphan)].map(({ key, kind, source, engine, definition }) => {
        const place = places.get(key);
        const lies = place !== undefined && hasEngine(place, config()) ? place : engine;
        return { key, kind, source, engine: lies, definition };
      });
    },
    async formerSelf({ key, definition }) {
      const own = await store.audience(key);
      if (own && !isFirst(own)) return null;
      const former = (await believed()).find((record) => record.definitionHash === definition?.hash);
      return former ? orphan(former) : null;
    },
    orphans,
    ended: async () => (await unconfigured()).filter(({ endedAt }) => endedAt !== null),
  };
}

/** True if a destination may have it or get it: its first sync may be under way, or keep failing. */
export async function mayBeBelieved(
  { key, version, endedAt }: AudienceRecord,
  store: Pick<Records, 'runs'>,
): Promise<boolean> {
  if (version > 0 && endedAt === null) return true;
  const unfinished = await store.runs({ key, states: ['staged', 'held', 'sending', 'committed'], limit: 100 });
  // A retired audience may start again. Its other runs only send its end.
  return unfinished.some(({ action }) => endedAt === null || action === 'sync' || action === 'resync');
}

function unknownAudience(keys: readonly string[], known: readonly string[]): RollcallError {
  return new RollcallError('unknown_audience', nothingNamed('audience or trait', keys, known));
}

const snapshotsOf = (engine: string, { engines }: SyncConfig) =>
  Object.hasOwn(engines, engine) ? engines[engine]?.snapshots : undefined;

const homeOf = ({ live, engine }: Computation, config: SyncConfig) =>
  live ? LIVE_ENGINE : (snapshotsOf(engine, config) ?? engine);

export function configured(computation: Computation, config: SyncConfig): Subject {
  const { key, kind, engine, source, allowPlaceholders, guard, expect, timeout } = computation;
  const { with: columns, sendsColumns = false } = kind === 'audience' ? computation : {};
  const sql = definitionSql(computation, config);
  const hashes = { hash: definitionHash(computation), contentHash: contentHash(computation, config) };
  const snapshots = snapshotsOf(engine, config);
  return {
    ...{ key, kind },
    engine: homeOf(computation, config),
    ...(snapshots === undefined ? {} : { reads: engine }),
    source,
    definition: {
      ...{ sql, ...hashes, allowPlaceholders, guard, expect, timeout },
      ...(columns && { with: { names: Object.keys(columns), areSent: sendsColumns } }),
    },
  };
}

/**
 * A subject that is about to be computed, with what its dbt project says now.
 *
 * @throws RollcallError `dbt_stale`
 */
export async function withProject(subject: Subject, config: SyncConfig, asOf: number): Promise<Subject> {
  const computation = computations(config).find(({ key }) => key === subject.key);
  if (!subject.definition || !computation || computation.live) return subject;
  const read = await withModels(config, computation);
  if (read === config) return subject;
  const { definition } = configured(computations(read).find(({ key }) => key === subject.key) ?? computation, read);
  const { dbt, expect } = computation;
  const distrust = dbt && expect.dbt ? await buildFault(dbt, expect.dbt, asOf) : null;
  return { ...subject, definition: definition && { ...definition, distrust } };
}

export function orphan({ key, kind, engine, source }: AudienceRecord): Subject {
  return { key, kind, engine, source, definition: null };
}
