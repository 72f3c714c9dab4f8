import type { Destination } from '../../src/destination.ts';
import type { Clock } from '../../src/kernel/clock.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import type { Store } from '../../src/store/port.ts';
import { type Computation, computations, connectedTo, type SyncConfig } from '../audience-or-trait.ts';
import { countedDefinitionOf, withModels } from '../definition-sql.ts';
import { asRollcallError, naming } from '../engine-errors.ts';
import type { CountedDefinition } from '../engines/definitions/funnel.ts';
import { valueColumn } from '../engines/definitions/value-column.ts';
import type { Engine, TraitColumn } from '../engines/port.ts';
import type { Place } from '../open-engines.ts';
import { type Subjects, withProject } from '../run/audience-subjects.ts';
import { movesFrom } from '../run/move-snapshot.ts';
import type { Subject } from '../run/run-context.ts';
import type { Runner } from '../run/runner.ts';
import { withinTime } from '../time-limit.ts';
import { funnelOf, planOf, type SyncPlan } from './plan.ts';
import { type Trial, type TrialRequest, tryOut } from './trial.ts';

/** An audience or computed trait, as its receivers see it. */
export interface ComputedType {
  readonly key: string;
  readonly kind: 'audience' | 'trait';
  /** The traits that it sends, or an audience's columns. */
  readonly columns: readonly TraitColumn[];
}

/** Previews for people. Nothing is written. */
interface Previews {
  plan(subject: Subject, now?: number, signal?: AbortSignal): Promise<SyncPlan>;
  type(subject: Subject): Promise<ComputedType>;
  /** The outcome of a definition that is not configured. */
  tryOut(request: TrialRequest): Promise<Trial>;
  /** The columns of its definition, which is checked in its engine, and those that it does not name. */
  describe(subject: Subject): Promise<readonly TraitColumn[]>;
}

interface PreviewsOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly config: () => SyncConfig;
  readonly runner: Runner;
  readonly subjects: Subjects;
}

export function createPreviews({ store, clock, config, runner, subjects }: PreviewsOptions): Previews {
  /** Works within the definition's time limit. */
  async function look<T>(
    subject: Subject,
    work: (engine: Engine, signal: AbortSignal) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    const { timeout = Number.POSITIVE_INFINITY } = subject.definition ?? {};
    const within = (engine: Engine, until: AbortSignal) =>
      withinTime(clock, timeout, until, (limited) => work(engine, limited));
    const done = placeNow(subject).then((place) => runner.engines.plan(place, within, signal));
    return runner.during(done).catch((error) => {
      throw naming(subject.key, asRollcallError(error));
    });
  }

  /** The engine of live audiences counts nobody, so the one for their SQL does. Null if that does not answer. */
  async function countLive(
    { key, engine, timeout }: Computation,
    counted: CountedDefinition,
    asOf: number,
    signal?: AbortSignal,
  ) {
    const { funnel } = counted;
    const asked = {
      key: `plan:${key}`,
      plan: 'funnel',
      kind: 'audience',
      action: 'sync',
      sql: funnel.people,
      asOf,
      funnel,
    } as const;
    const given = { ...asked, toVersion: 1, leavers: false, leasedAt: 0 };
    const count = (opened: Engine, until: AbortSignal) =>
      withinTime(clock, timeout, until, (limited) => opened.preview({ ...given, signal: limited }, 0));
    const done = runner.engines.plan({ engine }, count, signal);
    const preview = await runner.during(done).catch((error) => {
      if (error instanceof RollcallError) return null;
      throw error;
    });
    return preview?.funnel ? funnelOf(counted, preview.funnel) : null;
  }

  const describe = async (subject: Subject) => {
    const { key, kind, definition } = await projectOf(subject, clock.now());
    return look(subject, (engine, signal) =>
      engine.describe({
        key,
        kind,
        sql: definition?.sql ?? '',
        asOf: clock.now(),
        freshness: definition?.expect.freshness?.column,
        allowPlaceholders: definition?.allowPlaceholders,
        with: definition?.with,
        signal,
      }),
    );
  };

  const projectOf = (subject: Subject, asOf: number) =>
    withProject(subject, config(), asOf).catch((error) => {
      throw naming(subject.key, asRollcallError(error));
    });

  /** Compares with a snapshot that is not moved yet where it is. */
  async function placeNow(subject: Subject): Promise<Place> {
    const former = movesFrom(subject, await store.audience(subject.key), config());
    return former === null ? subject : { engine: former, reads: subject.reads ?? subject.engine };
  }

  return {
    describe,
    tryOut: (request) => runner.during(tryOut({ store, clock, config, engines: runner.engines, subjects }, request)),
    async plan(given, now = clock.now(), signal) {
      const subject = await projectOf(given, now);
      const computation = computations(config()).find(({ key }) => key === subject.key);
      const counted = computation ? countedDefinitionOf(computation, await withModels(config(), computation)) : null;
      const plan = async (engine: Engine, signal: AbortSignal) => {
        const former = await subjects.formerSelf(subject);
        return planOf({ store, engine, clock, subject, former, counted, asOf: now, config, signal });
      };
      const found = await look(subject, plan, signal);
      if (!computation?.live || counted === null) return found;
      return { ...found, funnel: await countLive(computation, counted, now, signal) };
    },
    async type(subject) {
      const { key, kind, definition } = subject;
      if (kind === 'audience' && definition?.with === undefined) return { key, kind, columns: [] };
      const columns = (await describe(subject)).filter(({ isUnnamed }) => !isUnnamed);
      if (kind === 'audience') {
        const { destinations } = config();
        const names = connectedTo(subject, destinations);
        const theirs = destinations.filter(({ name }) => names.includes(name));
        return { key, kind, columns: columns.map((column) => asSent(column, theirs)) };
      }
      // Engines don't know the types within JSON.
      const value = config().traits.find((trait) => trait.key === key)?.value;
      return { key, kind, columns: value ? columns.map((column) => valueColumn(column.key, value)) : columns };
    },
  };
}

/** A hashed column is a string. */
function asSent(column: TraitColumn, destinations: readonly Destination[]): TraitColumn {
  const forms = new Set(destinations.map(({ columns }) => (columns ? columns[column.key] : 'plain')));
  if (!forms.has('sha256')) return column;
  if (!forms.has('plain')) return { key: column.key, type: 'string', isList: false };
  if (column.type === 'string' && !column.isList) return column;
  return { key: column.key, type: column.isList || column.type === 'unknown' ? 'unknown' : 'scalar', isList: false };
}
