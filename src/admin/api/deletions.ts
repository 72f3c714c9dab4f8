import * as z from 'zod';
import { RollcallError } from '../../kernel/errors.ts';
import { given } from '../../kernel/given.ts';
import { REGULATION_TYPES, type Records, type Regulation } from '../../store/port.ts';
import { deletionLine } from '../lines.ts';
import { type ApiRoutes, reading } from './route.ts';
import { cursorOf, pageOf, paging, placeOf, time } from './shapes.ts';

const deletion = z.object({
  id: z.string(),
  type: z.enum(REGULATION_TYPES),
  status: z.enum(['INITIALIZED', 'RUNNING', 'FINISHED', 'FAILED', 'PARTIAL_SUCCESS']),
  sources: z.array(z.string()).nullable().describe('Null for every source.'),
  users: z.int().describe('How many; their ids are not shown.'),
  by: z.string().nullable().describe("The caller: a token's name, `local`, or `cli:USER`."),
  createdAt: time,
  finishedAt: time.nullable(),
  notices: z.array(
    z.object({
      destination: z.string(),
      notices: z.int().describe('How many it gets: one for each user and source.'),
      confirmed: z.int().describe('How many of them it took.'),
      confirmedAt: time.nullable().describe('When it took the last one.'),
    }),
  ),
});

export interface DeletionParts {
  readonly store: Pick<Records, 'regulations' | 'regulation' | 'confirmed'>;
}

export function deletionRoutes(routes: ApiRoutes, { store }: DeletionParts): void {
  reading(routes, '/deletions', {
    summary: 'Deletion requests, newest first: who asked, and which destinations confirmed',
    tag: 'Deletions',
    query: z.object(paging),
    answer: pageOf(deletion),
    handle: async ({ query: { limit, cursor } }) => {
      const before = placeOf(cursor, /^[\w-]+$/);
      const found: readonly Regulation[] = await store.regulations({ ...given({ before }), limit: limit + 1 });
      const page = found.slice(0, limit);
      const confirmed = await store.confirmed(page.map(({ id }) => id));
      return {
        data: page.map((each) => deletionLine(each, confirmed)),
        next: found.length > limit ? cursorOf(page.at(-1)?.id ?? '') : null,
      };
    },
  });
  reading(routes, '/deletions/:deletion', {
    summary: 'One deletion request',
    tag: 'Deletions',
    params: z.object({ deletion: z.string() }),
    answer: deletion,
    handle: async ({ params: { deletion: id } }) => {
      const found = await store.regulation(id);
      if (!found) throw new RollcallError('not_found', `There is no deletion request ${id}.`);
      return deletionLine(found, await store.confirmed([id]));
    },
  });
}
