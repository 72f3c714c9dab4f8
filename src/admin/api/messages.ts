import * as z from 'zod';
import { RollcallError } from '../../kernel/errors.ts';
import { given } from '../../kernel/given.ts';
import { MESSAGE_TYPES } from '../../message-types.ts';
import { MESSAGE_STATES, type Store } from '../../store/port.ts';
import { attemptLine, messageLine } from '../lines.ts';
import { type ResendOptions, resendMessages } from '../resend-messages.ts';
import { attempt } from './attempts.ts';
import { type ApiRoutes, ordering, reading } from './route.ts';
import { cursorOf, instant, pageOf, paging, placeOf, time } from './shapes.ts';

const message = z.object({
  id: z.string().describe('Of the delivery: its Idempotency-Key.'),
  messageId: z.string(),
  source: z.string(),
  type: z.enum(MESSAGE_TYPES),
  event: z.string().nullable().describe('Name of a track event; null where the body is not kept.'),
  traits: z.unknown().describe('Of a membership change; null for others, and where the body is not kept.'),
  userId: z.string().nullable(),
  destination: z.string(),
  state: z.enum(MESSAGE_STATES),
  at: time.describe('When it was accepted, died or was delivered.'),
  kept: z.boolean().describe('Whether its body is there, so that it can be sent again.'),
});

/** The most messages that one request sends again. */
const AT_ONCE = 100;
const tag = 'Messages';

export interface MessageParts {
  readonly store: Pick<Store, 'messagePage' | 'message' | 'attemptPage' | 'replay' | 'deliverAgain'>;
  readonly currentBodies: ResendOptions['currentBodies'];
}

export function messageRoutes(routes: ApiRoutes, { store, currentBodies }: MessageParts): void {
  reading(routes, '/messages', {
    summary: 'Messages on their way and delivered, one row for each destination',
    description:
      'First what waits, then what is dead, then what was delivered, the newest first in each. Of what was delivered the ids are found for `attempts.keep`, bodies and names of events for `messages.keep`. A page looks at a bounded part: it may be empty although `next` is not null.',
    tag,
    query: z.object({
      ...paging,
      userId: z.string().optional(),
      messageId: z.string().optional(),
      type: z.enum(MESSAGE_TYPES).optional(),
      event: z.string().optional().describe('Name of a track event.'),
      destination: z.string().optional(),
      state: z.enum(MESSAGE_STATES).optional(),
      since: instant.optional(),
      until: instant.optional(),
    }),
    answer: pageOf(message),
    handle: async ({ query: { cursor, limit, ...wanted } }) => {
      const place = placeOf(cursor, /^[a-z_]+:\d{1,16}$/) ?? null;
      const { messages, next } = await store.messagePage({ ...given(wanted), limit }, place);
      return { data: messages.map(messageLine), next: next === null ? null : cursorOf(next) };
    },
  });
  reading(routes, '/messages/:id', {
    summary: 'One message for one destination, with its body and the attempts',
    description: 'By the id of the delivery. The attempts are those that are found near the time at which it ended.',
    tag,
    params: z.object({ id: z.string() }),
    answer: message.extend({ acceptedAt: time, body: z.unknown(), attempts: z.array(attempt) }),
    handle: async ({ params: { id } }) => {
      const found = await store.message(id);
      if (!found) throw new RollcallError('not_found', `The body of the message ${id} is not kept.`);
      const { attempts } = await store.attemptPage({ delivery: id, limit: 100, until: found.at + SLACK }, null);
      return {
        ...messageLine(found),
        acceptedAt: new Date(found.acceptedAt).toISOString(),
        body: JSON.parse(found.body),
        attempts: attempts.map(attemptLine),
      };
    },
  });
  ordering(routes, '/messages/resend', {
    summary: 'Send messages again; membership changes with the value of now',
    description: 'Those that are dead or kept, by the ids of their deliveries; all of them or none.',
    tag,
    body: z.object({ ids: z.array(z.string()).min(1).max(AT_ONCE) }),
    answer: z.object({
      resent: z.int(),
      superseded: z.int().describe('Already outdated by a newer change, or of somebody who is being deleted.'),
    }),
    deed: ({ body }) => ({ action: 'messages.resend', target: `${body.ids.length} by id` }),
    handle: ({ body: { ids } }) => resendMessages(ids, { store, currentBodies }),
  });
}

/** Milliseconds to allow for clocks that differ between processes, and for attempts logged after their end. */
const SLACK = 60_000;
