import * as z from 'zod';
import type { ChangePlace } from '../../../jobs/index.ts';
import { RollcallError } from '../../kernel/errors.ts';
import { given } from '../../kernel/given.ts';
import { type Records, RUN_STATES, type Run } from '../../store/port.ts';
import { deliveryCounts } from '../lines.ts';
import { runLine } from '../run-line.ts';
import { type ApiRoutes, ordering, reading } from './route.ts';
import { deliveries, run } from './run-shapes.ts';
import { cursorOf, pageOf, paging, pagingByUser, placeAfter, placeOf } from './shapes.ts';
import { answerReport, report, type Syncing, waiting } from './sync.ts';

const change = z.object({
  userId: z.string(),
  change: z.enum(['entered', 'exited', 'changed']),
  traits: z.unknown().optional().describe('Of a computed trait: what the user has from then on.'),
});

const listing = z.object({
  ...paging,
  key: z.string().optional().describe('Only of this audience or trait.'),
  state: z.enum(RUN_STATES).optional(),
});

const params = z.object({ run: z.string().describe('Its id.') });
const tag = 'Runs';

export interface RunsApiParts {
  readonly store: Pick<Records, 'run' | 'runs' | 'runProgress'>;
  readonly sync: Syncing;
}

export function runRoutes(routes: ApiRoutes, { store, sync }: RunsApiParts): void {
  reading(routes, '/runs', {
    summary: 'Sync runs, newest first',
    tag,
    query: listing,
    answer: pageOf(run),
    handle: ({ query }) => listRuns(store, query),
  });
  reading(routes, '/runs/:run', {
    summary: 'One run, and what became of its deliveries',
    tag,
    params,
    answer: run.extend({ deliveries }),
    handle: async ({ params: { run: id } }) => {
      const found = await theRun(store, id);
      return { ...runLine(found), deliveries: deliveryCounts(await store.runProgress(id)) };
    },
  });
  reading(routes, '/runs/:run/changes', {
    summary: 'Users who entered, left or changed by a run; while it is held, who would',
    description: "In the order of the users' ids, as bytes.",
    tag,
    params,
    query: z.object({ ...pagingByUser, change: change.shape.change.optional().describe('Only such changes.') }),
    answer: pageOf(change),
    engine: 'look',
    handle: async ({ params: { run: id }, query: { limit, cursor, change: wanted }, request: { signal } }) => {
      const { changes, next } = await sync.changePage(id, changePlaceOf(cursor), limit, signal);
      return {
        data: changes
          .filter(({ change }) => change === (wanted ?? change))
          .map(({ userId, change, value }) => ({
            userId,
            change,
            ...(value === null ? {} : { traits: JSON.parse(value) }),
          })),
        next: next && cursorOf(`${next.position}:${placeAfter(next.user)}`),
      };
    },
  });
  for (const action of ['approve', 'reject'] as const) {
    ordering(routes, `/runs/:run/${action}`, {
      summary: action === 'approve' ? 'Let a held run go on, as it was staged' : 'Throw a held run away',
      tag,
      params,
      query: waiting,
      answer: report,
      begins: true,
      deed: ({ params }) => ({ action: `run.${action}`, target: params.run }),
      handle: async ({ params: { run: id }, query: { wait }, reply, goesOn }) => {
        // Even if the client does not wait, answer refusals that are known at once.
        if ((await theRun(store, id)).state !== 'held') {
          throw new RollcallError('unknown_run', `The run ${id} is not held now.`);
        }
        return answerReport(sync, () => sync[action](id), wait, { reply, goesOn });
      },
    });
  }
}

async function listRuns(store: RunsApiParts['store'], { limit, cursor, key, state }: z.output<typeof listing>) {
  const before = placeOf(cursor, /^[\w-]+$/);
  const filter = { ...given({ key, before }), ...(state ? { states: [state] } : {}) };
  const found = await store.runs({ ...filter, limit: limit + 1 });
  const page = found.slice(0, limit);
  return { data: page.map(runLine), next: found.length > limit ? cursorOf(page.at(-1)?.id ?? '') : null };
}

/** @throws RollcallError `invalid_request` */
function changePlaceOf(cursor: string | undefined): ChangePlace {
  const [, position = '0', user = ''] = /^(\d+):([^\0]*)$/.exec(placeOf(cursor, /^\d{1,15}:[^\0]*$/) ?? '') ?? [];
  return { position: Number(position), user };
}

async function theRun(store: RunsApiParts['store'], id: string): Promise<Run> {
  const found = await store.run(id);
  if (!found) throw new RollcallError('unknown_run', `There is no run ${id}.`);
  return found;
}
