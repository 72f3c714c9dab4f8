import type {
  AudienceStatus,
  ConditionAnswer,
  DestinationStanding,
  Person,
  StepTaken,
  Story,
  StoryChange,
  SyncPlan,
} from '../../jobs/index.ts';
import {
  type Alert,
  type AttemptRecord,
  type AudiencePause,
  type AuditRecord,
  type Backlog,
  type Confirmed,
  confirmedNotices,
  type DeadLetter,
  type DeadLetterFilter,
  type Discard,
  type MessageRecord,
  type Regulation,
  type RunProgress,
  type SendStatus,
  type StoreTime,
} from '../store/port.ts';
import { runLine } from './run-line.ts';

/** The JSON of both the command line (`--json`) and the management API. */

const iso = (time: number) => new Date(time).toISOString();
const isoOrNull = (time: number | null) => (time === null ? null : iso(time));
const parsed = (text: string | null): unknown => (text === null ? null : JSON.parse(text));

export function attemptLine(record: AttemptRecord) {
  return { ...record, at: iso(record.at), ms: Math.round(record.ms) };
}

export function letterLine(letter: DeadLetter, withBody: boolean | undefined) {
  const { id, destination, source, type, userId, messageId, reason, status, attempts, firstAt, lastAt } = letter;
  return {
    ...{ id, destination, source, type, userId, messageId, reason, status, attempts },
    ...{ firstAt: isoOrNull(firstAt), lastAt: iso(lastAt) },
    ...(withBody ? { body: parsed(letter.body) } : {}),
  };
}

export function messageLine(message: MessageRecord) {
  const { id, messageId, source, type, event, traits = null, userId, destination, state, at, kept } = message;
  return { id, messageId, source, type, event, traits, userId, destination, state, at: iso(at), kept };
}

/** Describe the chosen letters for the audit log, which must not name users. */
export function letterScope({ ids, userId, since, until, ...sides }: LetterScope): string {
  const { destination, source, reason, type } = sides;
  const parts = Object.entries({ destination, source, reason, type, since: dateOf(since), until: dateOf(until) });
  const some = [
    ...(ids ? [`${ids.length} by id`] : []),
    ...parts.flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${value}`])),
    ...(userId === undefined ? [] : ['of one user']),
  ];
  return some.length > 0 ? some.join(' ') : 'all';
}

type LetterScope = { readonly [K in keyof Omit<DeadLetterFilter, 'limit'>]?: DeadLetterFilter[K] | undefined };
const dateOf = (time: number | undefined) => (time === undefined ? undefined : iso(time));

export function discardLine({ source, code, at, message }: Discard) {
  return { source, code, at: iso(at), message };
}

export function alertLine({ id, about, openedAt, closedAt, opening }: Alert, time: StoreTime) {
  const { kind, subject, destination = null, audience = null, run = null, message } = about;
  return {
    ...{ alert: id, kind, subject, destination, audience, run, message },
    openedAt: iso(time.toWall(openedAt ?? 0)),
    closedAt: closedAt === null ? null : iso(time.toWall(closedAt)),
    told: opening?.sent ?? false,
  };
}

/** Omits the user ids: they have to be forgotten. */
export function deletionLine(regulation: Regulation, confirmed: readonly Confirmed[]) {
  const { id, type, status, sources, subjects, createdAt, finishedAt, by = null, notices = {} } = regulation;
  return {
    ...{ id, type, status, sources, users: subjects, by },
    createdAt: iso(createdAt),
    finishedAt: isoOrNull(finishedAt),
    notices: confirmedNotices(id, notices, confirmed),
  };
}

export function auditLine({ id, at, ...record }: AuditRecord) {
  return { at: iso(at), ...record };
}

export function planLine({ paused, sample, ...plan }: SyncPlan) {
  return { ...plan, paused: paused && pauseLine(paused), sample: sample.map((body) => JSON.parse(body) as unknown) };
}

const pauseLine = ({ at, by }: AudiencePause) => ({ since: iso(at), by });

export function audienceLine({ lastRun, ordered, nextRunAt, overdueSince, paused, todo, ...status }: AudienceStatus) {
  return {
    ...status,
    todo: todo?.do === 'repair' ? { ...todo, since: iso(todo.since) } : todo,
    lastRun: lastRun && shortRun(runLine(lastRun)),
    ordered: ordered && { action: ordered.action, at: iso(ordered.at) },
    nextRunAt: isoOrNull(nextRunAt),
    overdueSince: isoOrNull(overdueSince),
    paused: paused && pauseLine(paused),
  };
}

function shortRun({ run, state, action, startedAt, ms, code, reason }: ReturnType<typeof runLine>) {
  return { run, state, action, startedAt, ms, code, reason };
}

export function deliveryCounts({ deliveries, delivered, dead, superseded }: RunProgress) {
  return { total: deliveries, delivered, superseded, dead, waiting: deliveries - delivered - dead - superseded };
}

/** A send of past events, with its deliveries. */
export function sendLine({ send, deliveries, waitsFor }: SendStatus) {
  const { id, destination, since, until, type, event, source, state, total, sent, startedAt, finishedAt } = send;
  return {
    ...{ id, destination, since: iso(since), until: iso(until), type, event, source, state, total, sent },
    ...{ deliveries: deliveryCounts(deliveries), waitsFor },
    ...{ startedAt: iso(startedAt), finishedAt: isoOrNull(finishedAt) },
  };
}

export function storyLine({
  asOf,
  value,
  since,
  changes,
  absence = null,
  conditions = [],
  steps = [],
  unfinished,
  attempts,
  deadLetters,
  ...story
}: Story) {
  return {
    ...story,
    asOf: isoOrNull(asOf),
    value: parsed(value),
    since: since && runLine(since),
    changes: changes.map(changeLine),
    absence,
    conditions: conditions.map(conditionLine),
    steps: steps.map(stepLine),
    unfinished: unfinished.map(runLine),
    attempts: attempts.map(attemptLine),
    deadLetters: deadLetters.map(shortLetter),
  };
}

export function personLine({ asOf, memberships, deletion: { suppressed, requests }, ...person }: Person) {
  return {
    ...person,
    asOf: isoOrNull(asOf),
    memberships: memberships.map(({ value, change, ...membership }) => ({
      ...membership,
      value: parsed(value),
      change: change && changeLine(change),
    })),
    deletion: { suppressed, requests: requests.map((each) => ({ ...each, createdAt: iso(each.createdAt) })) },
  };
}

/** The knowledge that a destination has of an audience, and the messages that wait for it. */
export function standingLine({ since, ...standing }: DestinationStanding, backlogs: readonly Backlog[]) {
  const { pending = 0, dead = 0 } = backlogs.find(({ destination }) => destination === standing.destination) ?? {};
  return { ...standing, since: isoOrNull(since), pending, dead };
}

const conditionLine = ({ last, value, ...condition }: ConditionAnswer) => ({
  ...condition,
  last: isoOrNull(last),
  value: parsed(value),
});

const stepLine = ({ event, until, ...step }: StepTaken) => ({
  ...step,
  event: event && { messageId: event.messageId, event: event.event, timestamp: iso(event.at) },
  until: isoOrNull(until),
});

const shortLetter = ({ id, destination, reason, status }: DeadLetter) => ({ id, destination, reason, status });

/** As `cause` in the context of a live change; null if everybody was computed again. */
function causeLine({ event, audience, computed, deletion, time }: NonNullable<StoryChange['cause']>) {
  if (event) return { messageId: event.messageId };
  if (audience !== null) return { audience };
  if (computed !== null) return { computed };
  if (deletion) return { deletion };
  return time === null ? null : { time };
}

function changeLine({ change, reason, changedAt, value, run, cause, told }: StoryChange) {
  return {
    change,
    reason,
    changedAt: isoOrNull(changedAt),
    at: run ? iso(run.startedAt) : cause && iso(cause.at),
    run: run?.id ?? null,
    action: run?.action ?? null,
    definitionHash: run?.definitionHash ?? null,
    cause: cause && causeLine(cause),
    // Null if the cause was something else.
    event: cause?.event ? { ...cause.event, timestamp: iso(cause.event.timestamp) } : null,
    audience: cause?.audience ?? null,
    value: parsed(value),
    told: told.map(({ destination, attempt, deadLetter }) => ({
      destination,
      reached: attempt?.outcome === 'success',
      attempt: attempt && attemptLine(attempt),
      deadLetter: deadLetter && shortLetter(deadLetter),
    })),
  };
}
