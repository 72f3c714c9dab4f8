import * as z from 'zod';
import { CONCERNS } from '../../concern.ts';
import { given } from '../../kernel/given.ts';
import type { Store } from '../../store/port.ts';
import { alertLine } from '../lines.ts';
import { type ApiRoutes, reading } from './route.ts';
import { cursorOf, pageOf, paging, placeOf, time } from './shapes.ts';

const alert = z.object({
  alert: z.string().describe('Its id.'),
  kind: z.enum(CONCERNS),
  subject: z.string(),
  destination: z.string().nullable(),
  audience: z.string().nullable(),
  run: z.string().nullable(),
  message: z.string(),
  openedAt: time.describe('When it had lasted long enough.'),
  closedAt: time.nullable().describe('Null while it is open.'),
  told: z.boolean().describe('Whether the notice of its beginning is on its way to the hooks.'),
});

export interface AlertParts {
  readonly store: Pick<Store, 'alerts' | 'time'>;
}

export function alertRoutes(routes: ApiRoutes, { store }: AlertParts): void {
  reading(routes, '/alerts', {
    summary: 'Alerts, newest first',
    description:
      'Empty where the configuration has no `alerts`. What needs a person now is in `/overview` in any case.',
    tag: 'Alerts',
    query: z.object({ ...paging, state: z.enum(['open', 'closed']).optional() }),
    answer: pageOf(alert),
    handle: async ({ query: { limit, cursor, state } }) => {
      const before = placeOf(cursor, /^\d{1,15}$/);
      const filter = given({
        isOpen: state && state === 'open',
        before: before === undefined ? before : Number(before),
      });
      const { alerts, next } = await store.alerts({ ...filter, limit });
      return { data: alerts.map((each) => alertLine(each, store.time)), next: next === null ? null : cursorOf(next) };
    },
  });
}
