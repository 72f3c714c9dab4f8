import partition from 'lodash/partition.js';
import type { MembershipForm } from '../src/destination.ts';
import type { Clock } from '../src/kernel/clock.ts';
import { RollcallError } from '../src/kernel/errors.ts';
import type { ChangeReason } from '../src/membership-change.ts';
import type { AudienceRecord, DeadLetter, Records, Run } from '../src/store/port.ts';
import { nameOf, parseConflictKey, type SyncConfig, wants } from './audience-or-trait.ts';
import { asRollcallError } from './engine-errors.ts';
import { runsDefinition } from './engines/plan/counts.ts';
import type { Engine } from './engines/port.ts';
import type { WithEngine } from './open-engines.ts';
import { destinationBodies } from './run/change-messages.ts';
import { endReason, explainAgain } from './run/explanations.ts';
import { bodyBuilder } from './run/identify-body.ts';
import { bodiesOf } from './run/send.ts';

export type DeadChange = Pick<DeadLetter, 'destination' | 'conflict' | 'messageId' | 'body'>;

/** A body with the current value; null for messages that are sent unchanged; the error if the value can't be read. */
export type CurrentBody = string | null | RollcallError;

interface CurrentBodiesDeps {
  readonly store: Pick<Records, 'audience' | 'lastSequence' | 'runs'>;
  readonly clock: Clock;
  readonly config: () => SyncConfig;
  readonly withEngine: WithEngine;
}

interface ChangeLetter {
  readonly key: string;
  readonly form: MembershipForm;
  readonly user: string;
  readonly letter: DeadChange;
}

interface Audience {
  readonly record: AudienceRecord;
  readonly changes: readonly ChangeLetter[];
}

/** Errors of engines that could not be opened, by name: a replay of many pages waits for each only once. */
export type UnreachableEngines = Map<string, RollcallError>;

/**
 * Bodies for dead letters that are sent again, in the same order. Future changes supersede them. Each engine is opened
 * once, and queried once per audience.
 */
export async function currentBodies(
  deps: CurrentBodiesDeps,
  letters: readonly DeadChange[],
  unreachable: UnreachableEngines,
): Promise<CurrentBody[]> {
  const bodies = new Map<DeadChange, CurrentBody>();
  const tell = (changes: readonly ChangeLetter[], body: (change: ChangeLetter) => CurrentBody) => {
    for (const change of changes) bodies.set(change.letter, body(change));
  };
  const audiences: Audience[] = [];
  for (const [key, all] of Map.groupBy(letters.flatMap(toChange), (change) => change.key)) {
    const record = await deps.store.audience(key);
    const lapsed = new Set(record?.lapsed);
    const [missed, changes] = partition(all, ({ letter }) => lapsed.has(letter.destination));
    tell(missed, ({ letter }) => destinationAway(key, letter.destination));
    if (record && !(await isOver(deps, record))) audiences.push({ record, changes });
    else {
      const at = deps.clock.now();
      const last = record?.sequence ?? (await deps.store.lastSequence(key));
      // Above all changes of its past life, below all of the next one.
      const sequence = last > 0 ? last + 1 : at * 1000;
      tell(changes, (change) => retiredBody(change, endReason({ endedAt: at, ...record }), at, sequence));
    }
  }
  for (const [engineName, theirs] of Map.groupBy(audiences, ({ record }) => record.engine)) {
    if (!unreachable.has(engineName)) {
      const told = deps.withEngine(engineName, true, async (engine) => {
        for (const audience of theirs) tell(audience.changes, await bodiesOfNow(deps, engine, audience));
      });
      await told.catch((error) => unreachable.set(engineName, asRollcallError(error)));
    }
    const failure = unreachable.get(engineName);
    if (failure) for (const { changes } of theirs) tell(changes, () => failure);
  }
  return letters.map((letter) => bodies.get(letter) ?? null);
}

/** True if it has ended, unless its next life is being sent: that has no record of its own yet. */
async function isOver({ store }: CurrentBodiesDeps, { key, endedAt }: AudienceRecord): Promise<boolean> {
  if (endedAt === null) return false;
  const [unfinished] = await store.runs({ key, states: ['sending'], limit: 1 });
  return unfinished === undefined || !runsDefinition(unfinished);
}

function toChange(letter: DeadChange): ChangeLetter[] {
  const change = letter.conflict === null ? null : parseConflictKey(letter.conflict);
  return change ? [{ ...change, letter }] : [];
}

/** An error in one audience doesn't affect the others. */
async function bodiesOfNow(
  deps: CurrentBodiesDeps,
  engine: Engine,
  { record, changes }: Audience,
): Promise<(change: ChangeLetter) => CurrentBody> {
  const { key, kind, columns } = record;
  try {
    const [unfinished] = await deps.store.runs({ key, states: ['sending'], limit: 1 });
    if (record.endedAt === null && (await engine.snapshot(key)).version < record.version) throw lost(key);
    const staged = unfinished ? await engine.staged(unfinished.id) : null;
    const users = [...new Set(changes.map(({ user }) => user))];
    // A run for one destination doesn't change the membership.
    const isForAll = unfinished && unfinished.action !== 'withdraw' && unfinished.action !== 'backfill';
    const standings = await engine.lookup(key, users, isForAll ? staged?.plan : undefined);
    const hears = hearersOf(record, unfinished, deps.config());
    const at = deps.clock.now();
    const name = nameOf(key, deps.config());
    const spec =
      unfinished && staged
        ? bodiesOf({ ...unfinished, asOf: at }, staged.columns, record, deps)
        : { key, name, kind, columns, removed: record.formerColumns, at, now: () => at };
    const bodies = destinationBodies(spec, deps.config().destinations);
    const sequence = record.sequence + (staged?.total ?? 0);
    return ({ user, form, letter }) => {
      const standing = hears(letter.destination) ? standings.get(user) : undefined;
      const present = standing?.present ?? false;
      return bodies(letter.destination, form)(letter.messageId, {
        ...explainAgain(letter.body, present, hears(letter.destination) ? null : 'withdrawn', at),
        ...{ userId: user, present, value: standing?.value ?? null, sequence },
      });
    };
  } catch (error) {
    return () => asRollcallError(error);
  }
}

/**
 * Finds destinations that get the membership rather than its end: those that have it, and still want it. One that is to
 * get it again gets its end first.
 */
function hearersOf(
  record: AudienceRecord,
  unfinished: Run | undefined,
  { destinations }: SyncConfig,
): (destination: string) => boolean {
  const hearers = new Set([...record.destinations, ...(unfinished?.destinations ?? [])]);
  for (const each of destinations) if (!wants(each, record.key)) hearers.delete(each.name);
  return (destination) => hearers.has(destination);
}

/** Until its next run it has what it had when it left, from which it gets the difference. */
function destinationAway(key: string, name: string): RollcallError {
  const message = `${key}: ${name} was away. The next run after its return sends what died, with what it missed.`;
  return new RollcallError('destination_away', message);
}

/** Without the snapshot, everyone would appear to have left. */
function lost(key: string): RollcallError {
  const message = `${key}: the engine no longer has what was last synced. Bring its database back, or run \`rollcall resync ${key}\`.`;
  return new RollcallError('snapshot_lost', message);
}

/** A retired audience has no members. The columns of a retired trait are known only from the letter. */
function retiredBody(
  { key, user, form, letter }: ChangeLetter,
  reason: ChangeReason,
  at: number,
  sequence: number,
): string {
  const { traits, properties, context } = JSON.parse(letter.body) as {
    readonly traits?: object;
    readonly properties?: Readonly<Record<string, unknown>>;
    readonly context?: { readonly personas?: { readonly computation_class?: string } };
  };
  const kind = context?.personas?.computation_class === 'trait' ? 'trait' : 'audience';
  const { [`${kind}_key`]: _key, [`${kind}_name`]: name = key, ...values } = properties ?? {};
  const columns = kind === 'trait' ? Object.keys(traits ?? values) : [];
  const body = bodyBuilder({ key, name: String(name), kind, columns, removed: [], at, now: () => at }, form);
  return body(letter.messageId, {
    ...explainAgain(letter.body, false, reason, at),
    ...{ userId: user, present: false, value: null, sequence },
  });
}
