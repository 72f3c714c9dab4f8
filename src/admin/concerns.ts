import type { AudienceStatus } from '../../jobs/index.ts';
import type { Concern } from '../concern.ts';
import type { AlertRules } from '../config/config.ts';
import type { Destination } from '../destination.ts';
import { withoutName } from '../kernel/without-name.ts';
import { type Backlog, type HistorySum, type OldestUntried, STEP_LENGTH, type Store, stepOf } from '../store/port.ts';
import { type EndpointStatus, statusesOf } from './endpoints.ts';

interface ConcernParts {
  readonly store: Pick<Store, 'time' | 'backlog' | 'endpoints' | 'oldestUntried' | 'historySums'>;
  readonly audiences: () => Promise<readonly AudienceStatus[]>;
  /** The hooks of alerts too. */
  readonly destinations: readonly Destination[];
  /** Ids of those that are configured. */
  readonly sources: readonly string[];
  readonly rules: AlertRules;
  /** Milliseconds since 1970. */
  readonly now: number;
  /** The concerns of the last look: a size is compared with the usual one before it changed. */
  readonly before?: readonly Concern[];
}

/** How everything stands. */
export interface Standing {
  /** All that needs a person now: what stops deliveries first. */
  readonly concerns: readonly Concern[];
  readonly endpoints: readonly EndpointStatus[];
  readonly backlogs: readonly Backlog[];
  readonly audiences: readonly AudienceStatus[];
}

export async function standingOf(parts: ConcernParts): Promise<Standing> {
  const { store, destinations, sources, rules, now, before = [] } = parts;
  const lately = stepOf(now, 'minute') - (LATELY - 1) * STEP_LENGTH.minute;
  const [states, backlogs, oldest, passed, audiences] = await Promise.all([
    store.endpoints(),
    store.backlog(),
    store.oldestUntried(),
    store.historySums('source', 'minute', lately, sources),
    parts.audiences(),
  ]);
  const endpoints = statusesOf(store, destinations, states, backlogs);
  const open = new Set(endpoints.filter(({ state }) => state === 'open').map(({ destination }) => destination));
  const former = new Map(before.map((concern) => [`${concern.kind} ${concern.subject}`, concern]));
  const concerns = [
    ...endpoints.flatMap(endpointConcern),
    ...backlogs.flatMap((backlog) => backlogConcerns(backlog, rules)),
    ...oldest.flatMap((row) => ageConcern(row, open, rules, now)),
    ...passed.flatMap((sum) => sourceConcern(sum, rules)),
    ...audiences.flatMap(audienceConcern),
    ...audiences.flatMap((status) => sizeConcern(status, rules, now, former.get(`unusualSize ${status.key}`))),
  ];
  return { concerns, endpoints, backlogs, audiences };
}

function endpointConcern({ endpoint, destination, url, state, since }: EndpointStatus): readonly Concern[] {
  const about = { subject: endpoint, destination, since };
  if (state === 'refusing')
    return [
      {
        ...about,
        kind: 'endpointRefusing',
        message: `${destination} refuses everything at ${url}: its URL or secret seems to be wrong.`,
      },
    ];
  if (state === 'dead')
    return [{ ...about, kind: 'endpointDead', message: `${destination} does not answer at ${url}.` }];
  if (state === 'paused')
    return [{ ...about, kind: 'endpointPaused', message: `${destination} is paused at ${url} until it is resumed.` }];
  return [];
}

function backlogConcerns({ destination, dead, heldOut }: Backlog, rules: AlertRules): readonly Concern[] {
  const about = { subject: destination, destination, since: null };
  const waiting = dead - heldOut;
  return [
    ...(heldOut > 0
      ? [
          {
            ...about,
            kind: 'queueFull',
            message: `The queue of ${destination} is full: ${heldOut} wait outside.`,
          } as const,
        ]
      : []),
    ...(waiting > rules.deadLetters.moreThan
      ? [{ ...about, kind: 'deadLetters', message: `${destination} has ${deadLetters(waiting)}.` } as const]
      : []),
  ];
}

const deadLetters = (count: number) => (count === 1 ? 'one dead letter' : `${count} dead letters`);

/** Where nothing is taken anyway, that is what people are to know. */
function ageConcern(
  { destination, since }: OldestUntried,
  open: ReadonlySet<string>,
  { backlogOld }: AlertRules,
  now: number,
): readonly Concern[] {
  if (!open.has(destination) || now - since < backlogOld.olderThan) return [];
  const message = `${destination} does not keep up: a delivery has waited for its first try for ${inMinutes(now - since)}.`;
  return [{ kind: 'backlogOld', subject: destination, destination, since: new Date(since).toISOString(), message }];
}

/** Minutes over which what a source sends is judged, and the fewest messages turned away that are worth a person's time. */
const LATELY = 10;
const WORTH_A_LOOK = 20;

function sourceConcern({ name, counts }: HistorySum, { sourceDiscards }: AlertRules): readonly Concern[] {
  const { accepted, duplicates, suppressed, discarded } = counts;
  const all = accepted + duplicates + suppressed + discarded;
  if (discarded < WORTH_A_LOOK || discarded <= (all * sourceDiscards.moreThan) / 100) return [];
  const message = `${name} sent ${all} messages in ten minutes, and ${discarded} of them were not taken.`;
  return [{ kind: 'sourceDiscards', subject: name, source: name, since: null, message }];
}

function inMinutes(ms: number): string {
  const minutes = Math.round(ms / 60_000);
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}

function audienceConcern({ key, todo, lastRun, overdueSince, live }: AudienceStatus): readonly Concern[] {
  if (todo === null && live !== null && overdueSince !== null) {
    const since = new Date(overdueSince).toISOString();
    return [
      { subject: key, audience: key, kind: 'runOverdue', since, message: `${key} is live and behind since ${since}.` },
    ];
  }
  if (todo === null && overdueSince === null) return [];
  const about = { subject: key, audience: key, since: lastRun && new Date(lastRun.startedAt).toISOString() };
  if (todo === null) {
    const last = lastRun ? `it last ran at ${new Date(lastRun.startedAt).toISOString()}` : 'it has not run yet';
    return [{ ...about, kind: 'runOverdue', since: null, message: `${key} is overdue: ${last}.` }];
  }
  if (todo.do === 'decide')
    return [{ ...about, kind: 'runHeld', run: todo.run, message: `${key} is held: ${todo.reason}` }];
  if (todo.do === 'repair') {
    const since = new Date(todo.since).toISOString();
    const message = `${key} failed with ${todo.code}: ${withoutName(key, todo.reason)}`;
    return [{ ...about, kind: 'runFailed', run: todo.run, since, message }];
  }
  return [
    {
      ...about,
      kind: 'audienceOrphaned',
      message: `${key} is no longer configured, and destinations still have its members: retire it.`,
    },
  ];
}

/** Sizes before the last one that say what is usual. */
const LEAST_KNOWN = 5;
/** A size that stays for so long is usual. */
const USUAL_AFTER = 24 * 60 * 60_000;
/** Few members more or less are nothing. */
const LEAST_CHANGE = 10;
/** Median absolute deviations that a size may be off: three standard deviations where sizes vary by chance. */
const DEVIATIONS = 3 * 1.4826;

/** The last size against those before it, or against what was usual when it first was unusual. */
function sizeConcern(
  { key, trend, lastRun }: AudienceStatus,
  { unusualSize }: AlertRules,
  now: number,
  former: Concern | undefined,
): readonly Concern[] {
  const size = trend.at(-1);
  if (size === undefined || lastRun === null) return [];
  const isFresh = former?.since != null && now - Date.parse(former.since) < USUAL_AFTER;
  const usual = (isFresh && former?.usual) || usualSizes(trend.slice(0, -1), unusualSize.by);
  if (!usual || (size >= usual.low && size <= usual.high)) return [];
  const since = (isFresh && former?.since) || new Date(lastRun.startedAt).toISOString();
  const message = `${key} has ${size} members; usual are ${usual.low} to ${usual.high}.`;
  return [{ kind: 'unusualSize', subject: key, audience: key, run: lastRun.id, since, message, usual }];
}

function usualSizes(sizes: readonly number[], percent: number): { low: number; high: number } | null {
  if (sizes.length < LEAST_KNOWN) return null;
  const middle = median(sizes);
  const deviation = median(sizes.map((size) => Math.abs(size - middle)));
  const spread = Math.max((middle * percent) / 100, DEVIATIONS * deviation, LEAST_CHANGE);
  return { low: Math.max(0, Math.floor(middle - spread)), high: Math.ceil(middle + spread) };
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const half = sorted.length >> 1;
  const [below = 0, above = 0] = sorted.slice(half - 1, half + 1);
  return sorted.length % 2 === 0 ? (below + above) / 2 : (sorted[half] ?? 0);
}
