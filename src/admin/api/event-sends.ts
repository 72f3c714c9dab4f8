import * as z from 'zod';
import { given } from '../../kernel/given.ts';
import { CLIENT_TYPES } from '../../message-types.ts';
import { type EventSend, SEND_STATES, type SendFilter, type SendOrder, type SendStatus } from '../../store/port.ts';
import { sendLine } from '../lines.ts';
import { type ApiRoutes, ordering, reading } from './route.ts';
import { deliveries } from './run-shapes.ts';
import { cursorOf, instant, pageOf, paging, placeOf, time } from './shapes.ts';

const send = z.object({
  id: z.string(),
  destination: z.string(),
  since: time,
  until: time,
  type: z.enum(CLIENT_TYPES).nullable(),
  event: z.string().nullable(),
  source: z.string().nullable(),
  state: z.enum(SEND_STATES),
  total: z.int().describe('Events when it was ordered, those of suppressed users included.'),
  sent: z.int().describe('Events queued so far.'),
  deliveries,
  waitsFor: z.string().nullable().describe('Why nothing more is queued now.'),
  startedAt: time,
  finishedAt: time.nullable().describe('When the last event was queued, or it was cancelled.'),
});

const asked = z.object({
  destination: z.string(),
  since: instant.describe('Received since then.'),
  until: instant.optional().describe('Received before then; the time of the order unless given.'),
  type: z.enum(CLIENT_TYPES).optional(),
  event: z.string().optional().describe('Only tracks with this name.'),
  source: z.string().optional(),
});

export interface SendApiParts {
  readonly sends: {
    count(order: SendOrder): Promise<number>;
    begin(order: SendOrder): Promise<EventSend>;
    cancel(id: string): Promise<SendStatus>;
    find(id: string): Promise<SendStatus>;
    list(filter: SendFilter): Promise<readonly SendStatus[]>;
  };
  readonly clock: { now(): number };
}

const params = z.object({ send: z.string().describe('Its id.') });
const tag = 'Event log';

export function eventSendRoutes(routes: ApiRoutes, { sends, clock }: SendApiParts): void {
  const orderOf = ({ destination, since, until, type, event, source }: z.output<typeof asked>): SendOrder => {
    const filter = { type: type ?? null, event: event ?? null, source: source ?? null };
    return { destination, since, until: until ?? clock.now(), ...filter };
  };
  reading(routes, '/event-log/count', {
    summary: 'Count the events that a send would send',
    tag,
    query: asked,
    answer: z.object({ events: z.int().describe('Those of suppressed users included.') }),
    handle: async ({ query }) => ({ events: await sends.count(orderOf(query)) }),
  });
  reading(routes, '/event-log/sends', {
    summary: 'Sends of past events, newest first',
    tag,
    query: z.object(paging),
    answer: pageOf(send),
    handle: async ({ query: { limit, cursor } }) => {
      const before = placeOf(cursor, /^[\w-]+$/);
      const found = await sends.list({ ...given({ before }), limit: limit + 1 });
      const page = found.slice(0, limit);
      return { data: page.map(sendLine), next: found.length > limit ? cursorOf(page.at(-1)?.send.id ?? '') : null };
    },
  });
  reading(routes, '/event-log/sends/:send', {
    summary: 'One send of past events, and what became of its deliveries',
    tag,
    params,
    answer: send,
    handle: async ({ params: { send: id } }) => sendLine(await sends.find(id)),
  });
  ordering(routes, '/event-log/sends', {
    summary: 'Send past events to a destination, as if it had been connected',
    description: 'The answer comes once the order is stored. Any process that delivers carries it out.',
    tag,
    body: asked,
    answer: send,
    deed: ({ body }) => ({ action: 'events.send', target: body.destination }),
    handle: async ({ body }) => sendLine(await sends.find((await sends.begin(orderOf(body))).id)),
  });
  ordering(routes, '/event-log/sends/:send/cancel', {
    summary: 'Queue nothing more of a send; what is queued is still delivered',
    tag,
    params,
    answer: send,
    deed: ({ params }) => ({ action: 'events.cancel', target: params.send }),
    handle: async ({ params: { send: id } }) => sendLine(await sends.cancel(id)),
  });
}
