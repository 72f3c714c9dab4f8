import * as z from 'zod';
import type { Config } from '../../config/config.ts';
import { given } from '../../kernel/given.ts';
import type { Records } from '../../store/port.ts';
import { auditLine, discardLine } from '../lines.ts';
import { listPaging, pageThrough } from './list.ts';
import { type ApiRoutes, reading } from './route.ts';
import { cursorOf, instant, pageOf, paging, placeOf, time } from './shapes.ts';

const discard = z.object({
  source: z.string(),
  code: z.string().describe('Why, as it was answered: see docs/errors.md.'),
  at: time,
  message: z.string().describe('Its start, without what may be personal.'),
});

const audit = z.object({
  at: time,
  who: z.string().describe("A token's name, `local`, or `cli:USER`."),
  action: z.string(),
  target: z.string().nullable(),
  outcome: z.string().nullable().describe('`done` or the code of an error; null while it goes on.'),
});

const source = z.object({
  id: z.string(),
  enabled: z.boolean(),
  ratePerSecond: z.number().nullable(),
  destinations: z.array(z.string()).describe('Those connected to it.'),
});

export interface RecordParts {
  readonly store: Pick<Records, 'discardPage' | 'audits'>;
  readonly config: () => Config;
}

/** Routes for sources, discards and the audit log. */
export function recordRoutes(routes: ApiRoutes, { store, config }: RecordParts): void {
  reading(routes, '/sources', {
    summary: 'The sources',
    tag: 'Sources',
    query: z.object(listPaging),
    answer: pageOf(source),
    handle: ({ query }) => {
      const { sources, destinations } = config();
      const page = pageThrough(sources, ({ id }) => id, query);
      const data = page.data.map(({ id, enabled, ratePerSecond = null }) => ({
        ...{ id, enabled, ratePerSecond },
        destinations: destinations.filter((each) => each.sources.includes(id)).map(({ name }) => name),
      }));
      return { ...page, data };
    },
  });
  reading(routes, '/discards', {
    summary: 'Samples of what collection did not take, newest first',
    tag: 'Sources',
    query: z.object({ ...paging, source: z.string().optional() }),
    answer: pageOf(discard),
    handle: async ({ query: { limit, cursor, source } }) => {
      const before = placeOf(cursor, /^\d{1,15}$/);
      const page = await store.discardPage(
        { limit, ...given({ source }) },
        before === undefined ? null : Number(before),
      );
      return { data: page.discards.map(discardLine), next: page.next === null ? null : cursorOf(page.next) };
    },
  });
  reading(routes, '/audit', {
    summary: 'The audit log, newest first',
    tag: 'Audit log',
    query: z.object({
      ...paging,
      who: z.string().optional(),
      action: z.string().optional(),
      since: instant.optional(),
    }),
    answer: pageOf(audit),
    handle: async ({ query: { limit, cursor, ...wanted } }) => {
      const before = placeOf(cursor, /^\d{1,15}$/);
      const filter = given({ ...wanted, before: before === undefined ? before : Number(before) });
      const found = await store.audits({ ...filter, limit: limit + 1 });
      const page = found.slice(0, limit);
      return { data: page.map(auditLine), next: found.length > limit ? cursorOf(page.at(-1)?.id ?? 0) : null };
    },
  });
}
