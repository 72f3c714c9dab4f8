import type { MembershipForm } from '../../src/destination.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import { failpoint } from '../../src/kernel/failpoint.ts';
import type { Message } from '../../src/message.ts';
import type { AcceptResult, AudienceRecord, Lane, Run, Store } from '../../src/store/port.ts';
import { conflictPrefix, nameOf } from '../audience-or-trait.ts';
import type { ChangeBatch, Staged } from '../engines/port.ts';
import { endOfPortion, fitting } from './batch-size.ts';
import { type ChangeMessage, changeMessages, formsOf } from './change-messages.ts';
import { waitForRoom } from './destination-room.ts';
import type { Exclusions } from './exclusions.ts';
import { type Explain, type Explanations, explainer } from './explanations.ts';
import type { BodySpec, MembershipChange } from './identify-body.ts';
import { messageIds } from './message-ids.ts';
import { recordWithout } from './owed-membership.ts';
import type { RunContext } from './run-context.ts';
import { audibleTo, noLonger } from './run-record.ts';

const BATCH = 5000;
/** Engines may have a cheaper way to read a few rows. */
const SHORT_READ = 1000;
/** Rows read at once: each read costs as much as a thousand rows, but values may be long. */
const READ = { audience: 4 * BATCH, trait: BATCH };
const FIRST_READ = { audience: READ.audience, trait: SHORT_READ };
/** Temporary failures of the store, which the sync waits out. */
const PASSING = new Set(['store_full', 'store_busy']);
const FIRST_WAIT = 100;
const LONGEST_WAIT = 5000;

/**
 * Streams the rest of a plan into `accept`. Each batch is stored together with the run's cursor, or not at all.
 * Resolves to the destinations that got all of it.
 */
export async function sendPlan(
  context: RunContext,
  run: Run,
  staged: Staged,
  record: AudienceRecord,
  exclusions: Exclusions,
): Promise<readonly string[]> {
  const { engine } = context;
  const { skipped = [] } = run;
  const getting = (run.destinations ?? []).filter((name) => !skipped.includes(name));
  let scope = await stillAudible(context, run, record, getting, run.cursor);
  const told = () => [...scope, ...skipped];
  if (staged.total === 0) return told();
  const toMessages = await planMessages(context, run, staged, record, scope);
  const lane = laneOf(run);
  let sent = run.sent;
  let { cursor } = run;
  const { kind, definition } = context.subject;
  // A former trait is no update of an audience.
  const isUpdated = record.kind === kind && (kind === 'trait' || definition?.with?.areSent === true);
  const explain = explainer(context, run, isUpdated);
  const parts = changesOf(engine, staged, Number(cursor ?? 0), explain, toMessages);
  let next = parts.next();
  try {
    for (let part = (await next).value; part; part = (await next).value) {
      context.signal.throwIfAborted();
      const { changes, positions } = part;
      for (let from = 0; from < changes.length; ) {
        scope = await stillAudible(context, run, record, scope, cursor);
        const most = mostFor(context, scope);
        const room = await waitForRoom(context, run, scope, most * (changes.length - from));
        scope = await keep(context, run, record, scope, room.scope, cursor);
        if (scope.length === 0) {
          await exclusions.purge((positions[from] ?? 1) - 1);
          return told();
        }
        const to = from + Math.max(1, Math.floor(room.free / most));
        const step = { lane, to: scope, run: run.id, after: cursor, cursor: String(positions[to - 1]) };
        const writing = exclusions.accept(changes.slice(from, to), async (wanted, epoch) => {
          const messages = wanted.length === 0 ? [] : wanted.flatMap((change) => change.messages);
          const { suppressed } = await acceptPatiently(context, messages, { ...step, epoch });
          return { suppressed: suppressed === 0 ? 0 : (suppressed * wanted.length) / messages.length };
        });
        if (from === 0) next = whileWriting(parts);
        sent += await writing;
        failpoint('sync_stream');
        cursor = step.cursor;
        from = to;
        context.onProgress({ run: run.id, key: run.key, phase: 'send', done: sent, total: staged.total });
      }
    }
    scope = await stillAudible(context, run, record, scope, cursor);
    return told();
  } finally {
    await next.catch(() => {});
    await parts.return(undefined);
  }
}

/** The most messages that one of these destinations gets of a change. */
function mostFor({ config }: RunContext, scope: readonly string[]): number {
  const theirs = config().destinations.filter(({ name }) => scope.includes(name));
  return Math.max(1, ...theirs.map((each) => formsOf(each).length));
}

/** Makes the next part while the store writes the last one, which it gets at the end of this pass of the event loop. */
function whileWriting<T>(parts: AsyncGenerator<T, undefined>): Promise<IteratorResult<T, undefined>> {
  const next = new Promise<void>((resolve) => setImmediate(resolve)).then(() => parts.next());
  next.catch(() => {});
  return next;
}

/** Drops destinations from the run that have been disconnected or disabled, or whose filter has changed. */
function stillAudible(
  context: RunContext,
  run: Run,
  record: AudienceRecord,
  scope: readonly string[],
  cursor: string | null,
) {
  const audible = audibleTo(run, record, context.subject, context.config().destinations);
  return keep(context, run, record, scope, audible, cursor);
}

/** A destination that leaves a run misses a part of it, which it gets once it returns. */
async function keep(
  { store, lease }: RunContext,
  run: Run,
  record: AudienceRecord,
  scope: readonly string[],
  stay: readonly string[],
  cursor: string | null,
): Promise<readonly string[]> {
  const staying = scope.filter((name) => stay.includes(name));
  if (staying.length < scope.length) {
    const { skipped = [] } = run;
    const left = [...staying, ...skipped];
    const gone = (run.destinations ?? []).filter((name) => !left.includes(name));
    const after = recordWithout(gone, run, record, cursor !== null);
    await store.saveRun({ ...run, destinations: left }, lease.fence, after);
  }
  return staying;
}

interface SendBatch {
  readonly lane: Lane;
  readonly to: readonly string[];
  readonly run: string;
  readonly cursor: string;
  /** The cursor before the batch; undefined unless it is a part of the run's plan. */
  readonly after?: string | null | undefined;
  readonly epoch: number;
}

/** Accepts a batch of a run; waits and retries while the store is full or busy. */
export async function acceptPatiently(
  { accept, subject, lease, clock, log, signal, onProgress }: RunContext,
  messages: readonly (Message | ChangeMessage)[],
  { lane, to, run, cursor, after, epoch }: SendBatch,
): Promise<AcceptResult> {
  // Messages share their lists of names: a list costs as much to hand to the store as a message.
  const scopes = new Map<readonly string[], readonly string[]>();
  const scopeOf = (message: Message | ChangeMessage) => {
    if (!('to' in message)) return to;
    const known = scopes.get(message.to) ?? message.to.filter((name) => to.includes(name));
    scopes.set(message.to, known);
    return known;
  };
  for (let wait = FIRST_WAIT; ; wait = Math.min(wait * 2, LONGEST_WAIT)) {
    signal.throwIfAborted();
    try {
      return await accept(subject.source, messages, {
        lane,
        toEach: scopeOf,
        step: { run, fence: lease.fence, cursor, after, epoch },
      });
    } catch (error) {
      if (!(error instanceof RollcallError && PASSING.has(error.code))) throw error;
      onProgress({ run, key: subject.key, phase: 'wait', done: 0, total: null, storeError: error.code });
      if (wait === LONGEST_WAIT)
        log.warn({ run, key: subject.key, code: error.code }, 'Waiting for the store to recover');
      await clock.sleep(wait, signal);
    }
  }
}

/** Keys of the bodies of a run. Those that destinations may still have, but the definition doesn't, are null. */
export function bodiesOf(
  run: Run,
  columns: readonly string[],
  record: AudienceRecord,
  { clock, config }: Pick<RunContext, 'clock' | 'config'>,
): BodySpec {
  const runsDefinition = run.action === 'sync' || run.action === 'resync';
  const kind = runsDefinition ? run.kind : record.kind;
  const current = runsDefinition ? columns : record.columns;
  const removed = new Set([...record.formerColumns, ...(runsDefinition ? noLonger(run, columns, record) : [])]);
  return {
    key: run.key,
    name: nameOf(run.key, config()),
    kind,
    columns: current,
    removed: [...removed],
    at: run.asOf,
    now: () => clock.now(),
  };
}

/** Forms of which messages of this audience are undelivered. */
export async function pendingForms(
  store: Pick<Store, 'hasUndelivered'>,
  key: string,
): Promise<ReadonlySet<MembershipForm>> {
  const forms = ['identify', 'track'] as const;
  const are = await Promise.all(forms.map((form) => store.hasUndelivered(conflictPrefix(key, form))));
  return new Set(forms.filter((_, index) => are[index]));
}

type ToMessages = (position: number, change: Omit<MembershipChange, 'sequence'>) => readonly ChangeMessage[];

async function planMessages(
  context: RunContext,
  run: Run,
  staged: Staged,
  record: AudienceRecord,
  scope: readonly string[],
): Promise<ToMessages> {
  const { store, config } = context;
  const hashKey = await store.hashKey();
  const isForOne = run.action === 'backfill' || run.action === 'withdraw';
  const ids = isForOne ? (run.destinations ?? []).join(',') : '*';
  const messages = changeMessages({
    ...bodiesOf(run, staged.columns, record, context),
    ...{ destinations: config().destinations, scope, pending: await pendingForms(store, run.key) },
    idOf: (edition) => messageIds(hashKey, run.id, edition === '' ? ids : `${ids} ${edition}`),
  });
  return (position, change) => messages({ ...change, sequence: record.sequence + position });
}

/** A change of one user, with its messages. */
interface PlannedChange {
  readonly userId: string;
  readonly messages: readonly ChangeMessage[];
}

interface PlanPart {
  readonly changes: readonly PlannedChange[];
  readonly positions: readonly number[];
}

/** The rest of a plan after a position. While a part is sent, the rows of the next one are read. */
async function* changesOf(
  engine: RunContext['engine'],
  { plan, kind, total }: Staged,
  behind: number,
  explain: Explain,
  toMessages: ToMessages,
): AsyncGenerator<PlanPart, undefined> {
  // Only a hint: positions have gaps, so rows may remain when this counts none.
  const read = (after: number, most: number) =>
    engine.changes(plan, after, Math.min(most, Math.max(SHORT_READ, total - after)));
  let next = read(behind, FIRST_READ[kind]);
  try {
    for (;;) {
      const rows = await next;
      const last = rows.positions.at(-1);
      if (last === undefined) return;
      const explanation = await explain(rows);
      next = read(last, fitting(rows.values, READ[kind]));
      next.catch(() => {});
      for (let from = 0; from < rows.positions.length; ) {
        const to = endOfPortion(rows.values, from, BATCH);
        yield partOf(rows, from, to, explanation, toMessages);
        from = to;
      }
    }
  } finally {
    await next.catch(() => {});
  }
}

function partOf(
  { positions, userIds, present, values }: ChangeBatch,
  from: number,
  to: number,
  explanation: Explanations,
  toMessages: ToMessages,
): PlanPart {
  const part = positions.slice(from, to);
  const changes = part.map((position, index): PlannedChange => {
    const row = from + index;
    const userId = userIds[row] as string;
    const change = { userId, present: present[row] as boolean, value: values[row] as string | null };
    return { userId, messages: toMessages(position, { ...change, ...explanation(row) }) };
  });
  return { changes, positions: part };
}

function laneOf(run: Run): Lane {
  return run.first || run.action === 'resync' || run.action === 'backfill' ? 'backfill' : 'live';
}
