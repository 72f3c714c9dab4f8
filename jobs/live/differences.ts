import isEqual from 'lodash/isEqual.js';
import partition from 'lodash/partition.js';
import type { ChangeCause } from '../../src/membership-change.ts';
import type { LiveMember, LiveOrigin } from '../../src/store/live.ts';
import type { Deletions, Records } from '../../src/store/port.ts';
import type { ChangeOrigin } from '../engines/port.ts';
import { type LiveComputation, sendsValues } from './definitions.ts';
import { readReference } from './kept.ts';
import type { EvaluationCause, Standings } from './people.ts';
import { hasColumns } from './stored-value.ts';

/** A value that has changed since it was last computed. */
export interface Difference extends LiveOrigin {
  readonly key: string;
  readonly user: string;
  readonly current: string | null;
  readonly told: string | null;
}

/**
 * @param members - all members in the store with these persons and keys
 * @param now - the time of the changes
 */
export function differences(
  standings: readonly Standings[],
  members: readonly LiveMember[],
  keys: { has(key: string): boolean },
  now: number,
): Difference[] {
  const known = Map.groupBy(members, ({ user }) => user);
  return standings.flatMap(({ person, values, cause }) => {
    const before = new Map((known.get(person) ?? []).map((member) => [member.key, member]));
    return [...new Set([...values.keys(), ...before.keys()])].flatMap((key) => {
      if (!keys.has(key)) return [];
      const value = values.get(key);
      const current = value === undefined ? null : JSON.stringify(value);
      const { current: was = null, told = null } = before.get(key) ?? {};
      if (current === was) return [];
      const ofColumns = current !== null && was !== null && (hasColumns(current) || hasColumns(was));
      // The order of an object's keys makes no difference.
      if (ofColumns && isEqual(JSON.parse(current), JSON.parse(was))) return [];
      return [{ key, user: person, current, told, cause: causeText(cause(key, ofColumns)), changedAt: now }];
    });
  });
}

/** Keys of audiences whose members get other columns without a message. */
export function quietKeys(
  found: readonly Difference[],
  computations: ReadonlyMap<string, LiveComputation>,
): readonly string[] {
  const isOfColumns = ({ current, told }: Difference) => [current, told].some((value) => value && hasColumns(value));
  const keys = new Set(found.filter(isOfColumns).map(({ key }) => key));
  return [...keys].filter((key) => sendsValues((computations.get(key) as LiveComputation).computation) === false);
}

function causeText(cause: EvaluationCause | null): string | null {
  if (!cause) return null;
  if ('deletion' in cause || 'time' in cause) return JSON.stringify(cause);
  if ('name' in cause) {
    const { key, column } = readReference(cause.name);
    return JSON.stringify(column === null ? { audience: key } : { computed: key });
  }
  const { messageId, type, event: name, timestamp } = cause;
  return JSON.stringify({ messageId, type, event: name, timestamp });
}

/** The cause of a change that its audience's settings made. */
export const BY_SETTINGS = 'null';

/** The origin of a change, as in its body; null if nothing is known. An event is named by its message id alone. */
export function originOf({ cause, changedAt }: LiveOrigin): ChangeOrigin | null {
  if (cause === null || changedAt === null) return null;
  const known = JSON.parse(cause) as ChangeCause | null;
  return { cause: known && 'messageId' in known ? { messageId: known.messageId } : known, changedAt };
}

/** Milliseconds until users whom an open deletion keeps out are evaluated again. */
const AGAIN = 1_000;

/**
 * Omits deleted and suppressed users who would enter or change, and everybody whose deletion is under way: that removes
 * them from membership and destinations itself.
 *
 * @returns the changes, and until when the users of the others wait: for the end of open deletions
 */
export async function withoutExcluded(
  store: Pick<Records, 'excluded' | 'deletedSince'>,
  source: string,
  found: readonly Difference[],
  { epoch, settled }: Deletions,
  now: number,
): Promise<{ readonly changes: readonly Difference[]; readonly waiting: ReadonlyMap<string, number> }> {
  const isOpen = settled < epoch;
  const [leaving, staying] = partition(found, ({ current }) => current === null);
  const [gone, out] = await Promise.all([
    // Suppressed users leave as others do.
    isOpen && leaving.length > 0 ? store.deletedSince(usersOf(leaving), source, settled) : [],
    staying.length > 0 ? store.excluded(usersOf(staying), source, settled) : [],
  ]);
  const omitted = { leaving: new Set(gone), staying: new Set(out) };
  return {
    changes: found.filter(({ user, current }) => !omitted[current === null ? 'leaving' : 'staying'].has(user)),
    waiting: new Map(isOpen ? out.map((user) => [user, now + AGAIN]) : []),
  };
}

const usersOf = (found: readonly Difference[]) => [...new Set(found.map(({ user }) => user))];
