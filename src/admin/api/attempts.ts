import * as z from 'zod';
import { given } from '../../kernel/given.ts';
import { MESSAGE_TYPES } from '../../message-types.ts';
import { OUTCOMES, type Records } from '../../store/port.ts';
import { attemptLine } from '../lines.ts';
import { type ApiRoutes, reading } from './route.ts';
import { cursorOf, instant, pageOf, paging, placeOf, time } from './shapes.ts';

export const attempt = z.object({
  delivery: z.string().describe('The Idempotency-Key.'),
  destination: z.string(),
  endpoint: z.string(),
  source: z.string(),
  type: z.enum(MESSAGE_TYPES),
  userId: z.string().nullable(),
  messageId: z.string(),
  at: time,
  ms: z.int(),
  outcome: z.enum(OUTCOMES),
  status: z.int().nullable(),
  error: z.string().nullable(),
  response: z.string().nullable().describe('The start of what a failed endpoint answered.'),
});

export interface AttemptParts {
  readonly store: Pick<Records, 'attemptPage'>;
}

export function attemptRoutes(routes: ApiRoutes, { store }: AttemptParts): void {
  reading(routes, '/attempts', {
    summary: 'The attempt log, last logged first',
    description:
      'An attempt is logged once it has ended: a slow one comes before quick ones that began after it. A page looks at a bounded part of the log: it may be empty although `next` is not null.',
    tag: 'Attempts',
    query: z.object({
      ...paging,
      destination: z.string().optional(),
      endpoint: z.string().optional(),
      delivery: z.string().optional().describe('The Idempotency-Key.'),
      messageId: z.string().optional(),
      userId: z.string().optional(),
      outcome: z.enum(OUTCOMES).optional(),
      since: instant.optional(),
    }),
    answer: pageOf(attempt),
    handle: async ({ query: { cursor, limit, ...wanted } }) => {
      const from = placeOf(cursor, /^\d{1,15}$/);
      const filter = { ...given(wanted), limit };
      const { attempts, next } = await store.attemptPage(filter, from === undefined ? null : Number(from));
      return { data: attempts.map(attemptLine), next: next === null ? null : cursorOf(next) };
    },
  });
}
