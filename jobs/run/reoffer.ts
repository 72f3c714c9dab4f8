import type { AudienceRecord, DeadLetter, Run } from '../../src/store/port.ts';
import { conflictKey, conflictPrefix, parseConflictKey, reachedBy, wants } from '../audience-or-trait.ts';
import { fitting } from './batch-size.ts';
import { destinationBodies } from './change-messages.ts';
import { areBack } from './destination-room.ts';
import type { Exclusions } from './exclusions.ts';
import { endReason, explainAgain } from './explanations.ts';
import { messageIds } from './message-ids.ts';
import type { RunContext } from './run-context.ts';
import { acceptPatiently, bodiesOf } from './send.ts';

const PAGE = 1000;
const FIRST_PAGE = 100;

/**
 * Sends changes again that died in delivery, each to its destination, whatever source it was sent as. They have the
 * current value, or `false` if the audience has ended. Destinations that have yet to catch up wait for that run, as
 * replays do. Resolves to the sequence after them.
 */
export async function reoffer(
  context: RunContext,
  run: Run,
  record: AudienceRecord,
  exclusions: Exclusions,
): Promise<number> {
  const { store, subject } = context;
  const isBack = await areBack(context);
  const isForOne = run.action === 'backfill' || run.action === 'withdraw';
  const reached = reachedBy(subject.source, context.config().destinations).filter(
    ({ name }) =>
      isBack(name) && !record.lapsed.includes(name) && (!isForOne || (run.destinations?.includes(name) ?? false)),
  );
  const isOver = new Map(reached.map((each) => [each.name, record.endedAt !== null || !wants(each, run.key)]));
  let sequence = record.sequence;
  let limit = FIRST_PAGE;
  for (let after: string | undefined; ; ) {
    // Messages that die during this run wait for the next one.
    const filter = { conflictPrefix: conflictPrefix(run.key), until: run.startedAt, limit };
    const letters = await store.deadLetters(after === undefined ? filter : { ...filter, after });
    // Held-out messages are queued automatically.
    const offered = letters.filter(({ destination, reason }) => isOver.has(destination) && reason !== 'queue_full');
    sequence = await reofferLetters(context, run, { ...record, sequence }, offered, isOver, exclusions);
    await store.drop(offered.map(({ id }) => id));
    after = letters.at(-1)?.id;
    if (letters.length < limit) return sequence;
    limit = fitting(
      letters.map(({ body }) => body),
      PAGE,
    );
  }
}

async function reofferLetters(
  context: RunContext,
  run: Run,
  record: AudienceRecord,
  letters: readonly DeadLetter[],
  isOver: ReadonlyMap<string, boolean>,
  exclusions: Exclusions,
): Promise<number> {
  if (letters.length === 0) return record.sequence;
  const partsOf = (letter: DeadLetter) => parseConflictKey(letter.conflict ?? '') ?? { user: '', form: 'identify' };
  const standings = await context.engine.lookup(
    run.key,
    letters.map((letter) => partsOf(letter).user),
  );
  const bodies = destinationBodies(bodiesOf(run, record.columns, record, context), context.config().destinations);
  const ended = endReason(record);
  const sequence = record.sequence + 1;
  // Scopes of plans are destination names, which have no colon.
  const idOf = messageIds(await context.store.hashKey(), run.id, ':again');
  for (const [destination, theirs] of Map.groupBy(letters, (letter) => letter.destination)) {
    const messages = theirs.map((letter) => {
      const { user: userId, form } = partsOf(letter);
      const isEnded = isOver.get(destination) ?? false;
      const standing = isEnded ? undefined : standings.get(userId);
      const present = standing?.present ?? false;
      const messageId = idOf(letter.id);
      return {
        type: form,
        messageId,
        userId,
        integrations: null,
        body: bodies(destination, form)(messageId, {
          ...explainAgain(letter.body, present, isEnded ? ended : null, run.asOf),
          ...{ userId, present, value: standing?.value ?? null, sequence },
        }),
        conflict: conflictKey(run.key, userId, form),
      };
    });
    const step = { lane: 'live' as const, to: [destination], run: run.id, cursor: run.cursor ?? '0' };
    await exclusions.accept(messages, (wanted, epoch) => acceptPatiently(context, wanted, { ...step, epoch }));
  }
  return sequence;
}
