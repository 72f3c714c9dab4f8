import type { AudienceStatus } from '../../jobs/index.ts';
import { CONCERNS, type Concern, type ConcernKind } from '../concern.ts';
import type { AlertRules } from '../config/config.ts';
import type { Destination } from '../destination.ts';
import { withoutName } from '../kernel/without-name.ts';
import { type Backlog, type HistorySum, type OldestUntried, STEP_LENGTH, type Store, stepOf } from '../store/port.ts';
import { type EndpointStatus, failing, statusesOf } from './endpoints.ts';

interface ConcernParts {
  readonly store: Pick<Store, 'time' | 'backlog' | 'endpoints' | 'oldestUntried' | 'historySums'>;
  readonly audiences: () => Promise<readonly AudienceStatus[]>;
  /** Includes alert hooks. */
  readonly destinations: readonly Destination[];
  /** Ids of the configured sources. */
  readonly sources: readonly string[];
  readonly rules: AlertRules;
  /** Milliseconds since 1970. */
  readonly now: number;
  /** The failure of the event log's work that lasts; null if it goes on. */
  readonly logTrouble: { readonly since: number; readonly message: string } | null;
  /** The concerns of the last check: a size is compared with the usual sizes before it changed. */
  readonly before?: readonly Concern[];
}

export interface ServiceStanding {
  /** Everything that needs a person now, in the order of the rules: those that stop deliveries come first. */
  readonly concerns: readonly Concern[];
  readonly endpoints: readonly EndpointStatus[];
  readonly backlogs: readonly Backlog[];
  readonly audiences: readonly AudienceStatus[];
}

export async function standingOf(parts: ConcernParts): Promise<ServiceStanding> {
  const { store, destinations, sources, rules, now, logTrouble, before = [] } = parts;
  const lately = stepOf(now, 'minute') - (LATELY - 1) * STEP_LENGTH.minute;
  const [states, backlogs, oldest, passed, audiences] = await Promise.all([
    store.endpoints(),
    store.backlog(),
    store.oldestUntried(),
    store.historySums('source', 'minute', lately, sources),
    parts.audiences(),
  ]);
  const endpoints = statusesOf(store, destinations, states, backlogs);
  const failed = await failedRequests(store, endpoints);
  const look = { endpoints, failed, backlogs, oldest, passed, audiences, rules, now, logTrouble, before };
  const concerns = CONCERNS.flatMap((kind) => RULE_CHECKS[kind](look).map((about) => ({ kind, ...about })));
  return { concerns, endpoints, backlogs, audiences };
}

/** The most dead endpoints whose requests are counted: each takes a query. */
const COUNTED = 20;

/** Requests that dead endpoints have not taken since about their death, by endpoint. */
async function failedRequests(store: ConcernParts['store'], endpoints: readonly EndpointStatus[]) {
  const dead = endpoints.filter(({ state, since }) => state === 'dead' && since !== null).slice(0, COUNTED);
  const sums = await Promise.all(
    dead.map(({ endpoint, since }) =>
      store.historySums('endpoint', 'minute', stepOf(Date.parse(since ?? ''), 'minute'), [endpoint]),
    ),
  );
  return new Map(sums.flat().map(({ name, counts }) => [name, counts.retried + counts.dead]));
}

/** Facts that the rules are judged by, read at one moment. */
interface Look extends Omit<ServiceStanding, 'concerns'> {
  readonly failed: ReadonlyMap<string, number>;
  readonly oldest: readonly OldestUntried[];
  readonly passed: readonly HistorySum[];
  readonly rules: AlertRules;
  readonly now: number;
  readonly logTrouble: ConcernParts['logTrouble'];
  readonly before: readonly Concern[];
}
type About = Omit<Concern, 'kind'>;

const RULE_CHECKS: Readonly<Record<ConcernKind, (look: Look) => readonly About[]>> = {
  endpointDead: (look) =>
    endpointsIn('dead', look, (status) => {
      const failed = look.failed.get(status.endpoint) ?? 0;
      const count = failed === 0 ? '' : ` ${failed === 1 ? 'One request has' : `${failed} requests have`} failed.`;
      return `${status.destination} ${failing(status)}.${count}`;
    }),
  endpointRefusing: (look) =>
    endpointsIn(
      'refusing',
      look,
      ({ destination, url }) =>
        `${destination} refuses everything at ${url}: its URL, certificate or secret seems to be wrong.`,
    ),
  endpointPaused: (look) =>
    endpointsIn('paused', look, ({ destination, url }) => `${destination} is paused at ${url} until it is resumed.`),
  deadLetters: ({ backlogs, rules }) =>
    backlogs.flatMap(({ destination, dead, heldOut }) => {
      const waiting = dead - heldOut;
      if (waiting <= rules.deadLetters.moreThan) return [];
      return [{ ...ofBacklog(destination), message: `${destination} has ${deadLetters(waiting)}.` }];
    }),
  queueFull: ({ backlogs }) =>
    backlogs.flatMap(({ destination, heldOut }) => {
      if (heldOut === 0) return [];
      return [{ ...ofBacklog(destination), message: `The queue of ${destination} is full: ${heldOut} are held out.` }];
    }),
  backlogOld,
  sourceDiscards: ({ passed, rules }) => passed.flatMap((sum) => discards(sum, rules)),
  runHeld: ({ audiences }) =>
    audiences.flatMap(({ key, todo, lastRun }) => {
      if (todo?.do !== 'decide') return [];
      return [{ ...ofAudience(key, lastRun), run: todo.run, message: `${key} is held: ${todo.reason}` }];
    }),
  runFailed: ({ audiences }) =>
    audiences.flatMap(({ key, todo }) => {
      if (todo?.do !== 'repair') return [];
      const since = new Date(todo.since).toISOString();
      const message = `${key} failed with ${todo.code}: ${withoutName(key, todo.reason)}`;
      return [{ subject: key, audience: key, run: todo.run, since, message }];
    }),
  runOverdue: ({ audiences }) => audiences.flatMap(overdue),
  unusualSize: ({ audiences, rules, now, before }) => {
    const former = new Map(before.flatMap((each) => (each.kind === 'unusualSize' ? [[each.subject, each]] : [])));
    return audiences.flatMap((status) => sizeConcern(status, rules, now, former.get(status.key)));
  },
  eventLogStuck: ({ logTrouble }) =>
    logTrouble === null
      ? []
      : [{ subject: 'event-log', since: new Date(logTrouble.since).toISOString(), message: logTrouble.message }],
  audienceOrphaned: ({ audiences }) =>
    audiences.flatMap(({ key, todo, lastRun }) => {
      if (todo?.do !== 'retire') return [];
      const message = `${key} is no longer configured, and destinations still have its members: retire it.`;
      return [{ ...ofAudience(key, lastRun), message }];
    }),
};

function endpointsIn(
  wanted: EndpointStatus['state'],
  { endpoints }: Look,
  say: (status: EndpointStatus) => string,
): readonly About[] {
  return endpoints
    .filter(({ state }) => state === wanted)
    .map((status) => ({
      subject: status.endpoint,
      destination: status.destination,
      since: status.since,
      message: say(status),
    }));
}

const ofBacklog = (destination: string) => ({ subject: destination, destination, since: null });

const deadLetters = (count: number) => (count === 1 ? 'one dead letter' : `${count} dead letters`);

/** Only for destinations with an open endpoint. Otherwise the concern is about the endpoints. */
function backlogOld({ oldest, endpoints, rules, now }: Look): readonly About[] {
  const open = new Set(endpoints.filter(({ state }) => state === 'open').map(({ destination }) => destination));
  return oldest.flatMap(({ destination, since }) => {
    if (!open.has(destination) || now - since < rules.backlogOld.olderThan) return [];
    const message = `${destination} does not keep up: a delivery has waited for its first try for ${inMinutes(now - since)}.`;
    return [{ subject: destination, destination, since: new Date(since).toISOString(), message }];
  });
}

/** Minutes over which a source's discards are counted, and the fewest of them that are worth a person's time. */
const LATELY = 10;
const WORTH_A_LOOK = 20;

function discards({ name, counts }: HistorySum, { sourceDiscards }: AlertRules): readonly About[] {
  const { accepted, duplicates, suppressed, discarded } = counts;
  const all = accepted + duplicates + suppressed + discarded;
  if (discarded < WORTH_A_LOOK || discarded <= (all * sourceDiscards.moreThan) / 100) return [];
  const message = `${name} sent ${all} messages in ten minutes, and ${discarded} of them were discarded.`;
  return [{ subject: name, source: name, since: null, message }];
}

function inMinutes(ms: number): string {
  const minutes = Math.round(ms / 60_000);
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}

function ofAudience(key: string, lastRun: AudienceStatus['lastRun']) {
  return { subject: key, audience: key, since: lastRun && new Date(lastRun.startedAt).toISOString() };
}

function overdue({ key, todo, lastRun, overdueSince, live }: AudienceStatus): readonly About[] {
  if (todo !== null || overdueSince === null) return [];
  const about = { subject: key, audience: key };
  if (live !== null) {
    const since = new Date(overdueSince).toISOString();
    return [{ ...about, since, message: `${key} is live and behind since ${since}.` }];
  }
  const last = lastRun ? `it last ran at ${new Date(lastRun.startedAt).toISOString()}` : 'it has not run yet';
  return [{ ...about, since: null, message: `${key} is overdue: ${last}.` }];
}

/** The fewest earlier sizes that show what is usual. */
const LEAST_KNOWN = 5;
/** Milliseconds after which a new size counts as usual. */
const USUAL_AFTER = 24 * 60 * 60_000;
/** Members more or less that never are unusual. */
const LEAST_CHANGE = 10;
/** Median absolute deviations that a size may be off: three standard deviations if sizes vary by chance. */
const DEVIATIONS = 3 * 1.4826;

/** Compare the last size with those before it, or with what was usual when the concern began. */
function sizeConcern(
  { key, trend, lastRun, live }: AudienceStatus,
  { unusualSize }: AlertRules,
  now: number,
  former: Concern | undefined,
): readonly About[] {
  const size = trend.at(-1);
  if (size === undefined || lastRun === null || live !== null) return [];
  if (trend.length <= LEAST_KNOWN && trend.every((each) => each === 0)) {
    const since = former?.since ?? new Date(lastRun.startedAt).toISOString();
    const message = `${key} has found nobody since its first sync: its engine may not see the data.`;
    return [{ subject: key, audience: key, run: lastRun.id, since, message }];
  }
  const isFresh = former?.since != null && now - Date.parse(former.since) < USUAL_AFTER;
  const usual = (isFresh && former?.usual) || usualSizes(trend.slice(0, -1), unusualSize.by);
  if (!usual || (size >= usual.low && size <= usual.high)) return [];
  const since = (isFresh && former?.since) || new Date(lastRun.startedAt).toISOString();
  const message = `${key} has ${size} members; usually it has ${usual.low} to ${usual.high}.`;
  return [{ subject: key, audience: key, run: lastRun.id, since, message, usual }];
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
