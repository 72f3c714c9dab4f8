import * as z from 'zod';
import { REGULATION_TYPES } from '../../store/port.ts';
import { personLine } from '../lines.ts';
import { storyChange } from './audience-shapes.ts';
import { type ApiRoutes, reading } from './route.ts';
import { instant, time } from './shapes.ts';
import type { Syncing } from './sync.ts';

const person = z.object({
  user: z.string(),
  asOf: time.nullable(),
  memberships: z.array(
    z.object({
      key: z.string(),
      kind: z.enum(['audience', 'trait']),
      name: z.string().nullable().describe('Null if it is no longer configured.'),
      member: z.boolean().nullable().describe('Null where nobody knows any more.'),
      value: z.unknown().describe('The traits of a trait, or the columns of an audience.'),
      change: storyChange.nullable().describe('The change that made it so, and what each destination was told of it.'),
    }),
  ),
  failures: z
    .array(z.object({ engine: z.string(), code: z.string(), message: z.string() }))
    .describe('Engines that did not answer; their audiences are missing.'),
  deletion: z.object({
    suppressed: z.array(z.string()).describe('Sources whose messages of this user are not taken.'),
    requests: z
      .array(z.object({ id: z.string(), type: z.enum(REGULATION_TYPES), status: z.string(), createdAt: time }))
      .describe('Requests that are not over.'),
  }),
});

export interface PeopleParts {
  readonly sync: Syncing;
}

export function peopleRoutes(routes: ApiRoutes, { sync }: PeopleParts): void {
  reading(routes, '/people/:user', {
    summary: 'One person in every audience and trait: since when, by which run or event, and what destinations know',
    tag: 'People',
    params: z.object({ user: z.string().min(1).describe('A user id.') }),
    query: z.object({ at: instant.optional().describe('As it was then.') }),
    answer: person,
    engine: 'look',
    handle: async ({ params: { user }, query: { at }, request: { signal } }) =>
      personLine(await sync.person(user, { at, signal })),
  });
}
