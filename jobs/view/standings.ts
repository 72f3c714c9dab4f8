import type { AudienceRecord, Run, RunState, Store } from '../../src/store/port.ts';
import { computations, reachedBy, type SyncConfig, wants } from '../audience-or-trait.ts';
import { skipsPast } from '../run/owed-membership.ts';

/** The knowledge that a destination has of an audience or trait. */
export interface DestinationStanding {
  readonly key: string;
  readonly kind: 'audience' | 'trait';
  readonly destination: string;
  /**
   * `new`: nothing was computed yet. `current`: it was sent every change. `later`: with `backfill: skip`, it was sent changes only.
   * `to_come`: it is owed the whole membership. `lapsed`: it missed changes, and is owed the difference. `to_end`: it no longer wants
   * it, and is owed its end.
   */
  readonly state: 'new' | 'current' | 'later' | 'to_come' | 'lapsed' | 'to_end';
  /** For a lapsed one: milliseconds since 1970 from which on it lacks changes, if that is known. */
  readonly since: number | null;
  /** A run that is being sent to it. */
  readonly run: Pick<Run, 'id' | 'action' | 'sent' | 'members'> | null;
}

const UNDER_WAY: readonly RunState[] = ['sending', 'committed'];
const MOST = 1_000;

interface StandingsParts {
  readonly store: Pick<Store, 'audiences' | 'runs'>;
  readonly config: () => SyncConfig;
}

/** Returns one for every audience and trait in each destination that has it, or should. */
export async function destinationStandings({ store, config }: StandingsParts): Promise<readonly DestinationStanding[]> {
  const [records, runs] = await Promise.all([store.audiences(), store.runs({ states: UNDER_WAY, limit: MOST })]);
  const known = new Map(records.map((record) => [record.key, record]));
  const all = computations(config());
  const ended = records.filter(({ key }) => !all.some((each) => each.key === key));
  return [...all, ...ended].flatMap(({ key, kind, source }) => {
    const record = known.get(key);
    const isOver = (record?.endedAt ?? null) !== null || !all.some((each) => each.key === key);
    const reached = reachedBy(source, config().destinations);
    const wanting = isOver ? [] : reached.filter((destination) => wants(destination, key));
    const names = new Set([
      ...wanting.map(({ name }) => name),
      ...(record?.destinations ?? []),
      ...(record?.lapsed ?? []),
    ]);
    return [...names].map((destination): DestinationStanding => {
      const wanted = wanting.find(({ name }) => name === destination);
      const run = runs.find((each) => each.key === key && each.destinations?.includes(destination));
      return {
        ...{ key, kind, destination },
        state: stateOf(record, destination, wanted !== undefined, wanted !== undefined && skipsPast(wanted)),
        since: record?.known?.find((each) => each.destination === destination)?.at ?? null,
        run: run ? { id: run.id, action: run.action, sent: run.sent, members: run.members } : null,
      };
    });
  });
}

function stateOf(
  record: AudienceRecord | undefined,
  destination: string,
  isWanted: boolean,
  skips: boolean,
): DestinationStanding['state'] {
  if (!record || record.version === 0) return 'new';
  if (record.lapsed.includes(destination)) return isWanted ? 'lapsed' : 'to_end';
  if (record.destinations.includes(destination)) return isWanted ? 'current' : 'to_end';
  return skips ? 'later' : 'to_come';
}
