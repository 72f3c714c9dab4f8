import * as z from 'zod';
import type { Clock } from '../../kernel/clock.ts';
import { DEAD_REASONS } from '../../kernel/dead-reasons.ts';
import { RollcallError } from '../../kernel/errors.ts';
import { given } from '../../kernel/given.ts';
import { MESSAGE_TYPES } from '../../message-types.ts';
import type { Store } from '../../store/port.ts';
import { letterLine, letterScope } from '../lines.ts';
import { type ReplayOptions, replayLetters } from '../replay-letters.ts';
import { type ApiRoutes, ordering, reading } from './route.ts';
import { cursorOf, instant, pageOf, paging, placeOf, time } from './shapes.ts';

const letter = z.object({
  id: z.string(),
  destination: z.string(),
  source: z.string(),
  type: z.enum(MESSAGE_TYPES),
  userId: z.string().nullable(),
  messageId: z.string(),
  reason: z.enum(DEAD_REASONS),
  status: z.int().nullable().describe('HTTP status of the last answer.'),
  attempts: z.int(),
  firstAt: time.nullable(),
  lastAt: time,
});

const filter = {
  destination: z.string().optional(),
  source: z.string().optional(),
  reason: z.enum(DEAD_REASONS).optional(),
  type: z.enum(MESSAGE_TYPES).optional(),
  userId: z.string().optional(),
  since: instant.optional().describe('Only dead since then.'),
  until: instant.optional().describe('Only dead before then.'),
};

/** Letters that one request replays or drops. `next` continues with the rest. */
const AT_ONCE = 1_000;

const chosen = z.object({
  ids: z.array(z.string()).min(1).max(AT_ONCE).optional(),
  ...filter,
  all: z.literal(true).optional().describe('All of them: needed where nothing else says which.'),
  cursor: z.string().max(500).optional().describe('`next` of the answer before.'),
});
type Chosen = z.output<typeof chosen>;

const next = z.string().nullable().describe('Where there are more: the `cursor` to go on with.');
const tag = 'Dead letters';

export interface LetterParts {
  readonly store: Pick<Store, 'deadLetters' | 'deadLetterPage' | 'replay' | 'drop' | 'backlog' | 'maxQueued'>;
  readonly clock: Clock;
  readonly currentBodies: ReplayOptions['currentBodies'];
}

export function letterRoutes(routes: ApiRoutes, parts: LetterParts): void {
  const { store } = parts;
  reading(routes, '/dead-letters', {
    summary: 'Messages that could not be delivered',
    description: 'Oldest ids first, or newest.',
    tag,
    query: z.object({ ...paging, ...filter, order: z.enum(['oldest', 'newest']).default('newest') }),
    answer: pageOf(letter),
    handle: async ({ query: { limit, cursor, order, ...wanted } }) => {
      const after = placeOf(cursor, PLACE);
      const { letters, next } = await store.deadLetterPage(
        { ...given({ ...wanted, after }), limit },
        order === 'newest',
      );
      return { data: letters.map((each) => letterLine(each, false)), next: next === null ? null : cursorOf(next) };
    },
  });
  reading(routes, '/dead-letters/:id', {
    summary: 'One dead letter with its body',
    tag,
    params: z.object({ id: z.string() }),
    answer: letter.extend({ body: z.unknown() }),
    handle: async ({ params: { id } }) => {
      const [found] = await store.deadLetters({ ids: [id], limit: 1 });
      if (!found) throw new RollcallError('not_found', `There is no dead letter ${id}.`);
      return { ...letterLine(found, true), body: JSON.parse(found.body) };
    },
  });
  ordering(routes, '/dead-letters/replay', {
    summary: 'Send dead letters again; membership changes with the value of now',
    description: `Up to ${AT_ONCE} in a request.`,
    tag,
    body: chosen,
    answer: z.object({
      replayed: z.int(),
      superseded: z.int().describe('Already outdated by a newer change.'),
      left: z.array(z.object({ reason: z.string(), letters: z.int() })).describe('Those that stay, and why.'),
      next,
    }),
    deed: ({ body }) => ({ action: 'dead-letters.replay', target: letterScope(body) }),
    handle: ({ body }) => replayChosen(parts, body),
  });
  ordering(routes, '/dead-letters/drop', {
    summary: 'Give dead letters up for good',
    description: `Up to ${AT_ONCE} in a request.`,
    tag,
    body: chosen,
    answer: z.object({ dropped: z.int(), next }),
    deed: ({ body }) => ({ action: 'dead-letters.drop', target: letterScope(body) }),
    handle: async ({ body }) => {
      const { letters, next } = await choose(store, body);
      return { dropped: await store.drop(letters.map(({ id }) => id)), next };
    },
  });
}

const PLACE = /^[0-9a-z-]+$/;

async function* only<T>(page: readonly T[]): AsyncGenerator<readonly T[]> {
  if (page.length > 0) yield page;
}

async function replayChosen({ store, clock, currentBodies }: LetterParts, chosen: Chosen) {
  const { letters, next } = await choose(store, chosen);
  const { replayed, superseded, left } = await replayLetters(only(letters), {
    store,
    currentBodies,
    clock,
    rate: null,
    maxPending: Math.max(1, Math.floor(store.maxQueued / 2)),
    signal: new AbortController().signal,
    onProgress: () => {},
    onFull: () => {},
  });
  return { replayed, superseded, left: [...left].map(([reason, letters]) => ({ reason, letters })), next };
}

async function choose(store: LetterParts['store'], { all, cursor, ...filter }: Chosen) {
  const wanted = given(filter);
  if (Object.keys(wanted).length === 0 && !all) {
    throw new RollcallError(
      'invalid_request',
      'Name dead letters by id or by a filter. For all of them, set "all": true.',
    );
  }
  const after = placeOf(cursor, PLACE);
  const { letters, next } = await store.deadLetterPage({ ...wanted, ...given({ after }), limit: AT_ONCE }, false);
  return { letters, next: next === null ? null : cursorOf(next) };
}
