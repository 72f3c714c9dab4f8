import { RollcallError } from '../../kernel/errors.ts';
import { asOf, details, audienceParams as params, audienceTag as tag } from './audience-shapes.ts';
import { type AudienceParts, audienceDetails, configuredAudience, oneAudience } from './audiences.ts';
import { type ApiRoutes, ordering } from './route.ts';
import { answerReport, report, type Syncing, waiting } from './sync.ts';

export function audienceOrderRoutes(routes: ApiRoutes, parts: AudienceParts): void {
  const { sync, config, store, clock } = parts;
  ordering(routes, '/audiences/:key/sync', {
    summary: 'Sync it now',
    description:
      'With `wait=true` the answer comes when the run is over: 200, 409 `run_held` where a person has to decide, or the status of the failure.',
    tag,
    params,
    query: waiting,
    body: asOf,
    answer: report,
    begins: true,
    deed: ({ params }) => ({ action: 'audience.sync', target: params.key }),
    handle: async ({ params: { key }, body: { now }, query: { wait }, reply, goesOn }) => {
      await refusePaused(parts, key);
      sync.check([key], { now });
      return answerReport(sync, () => syncOne(sync, key, now), wait, { reply, goesOn });
    },
  });
  for (const action of ['pause', 'resume'] as const) {
    ordering(routes, `/audiences/:key/${action}`, {
      summary:
        action === 'pause' ? 'Have nothing sync it until it is resumed' : 'Have it synced again, from its next tick on',
      tag,
      params,
      answer: details,
      deed: ({ params }) => ({ action: `audience.${action}`, target: params.key }),
      handle: async ({ params: { key }, caller }) => {
        configuredAudience(key, config());
        if (action === 'pause') await store.pauseAudience({ key, at: clock.now(), by: caller.name });
        else await store.resumeAudience(key);
        return audienceDetails(parts, key);
      },
    });
  }
  for (const action of ['resync', 'retire'] as const) {
    ordering(routes, `/audiences/:key/${action}`, {
      summary: action === 'resync' ? 'Send the whole membership again' : 'Send false to every member, and forget it',
      tag,
      params,
      query: waiting,
      answer: report,
      begins: true,
      deed: ({ params }) => ({ action: `audience.${action}`, target: params.key }),
      handle: async ({ params: { key }, query: { wait }, reply, goesOn }) => {
        await oneAudience(sync, key);
        return answerReport(sync, () => sync[action](key), wait, { reply, goesOn });
      },
    });
  }
}

/** @throws RollcallError `unknown_audience`, `audience_paused` */
async function refusePaused({ config, store }: AudienceParts, key: string): Promise<void> {
  const { paused } = configuredAudience(key, config());
  if (paused) {
    const message = `${key} is paused in the configuration: take paused out there before it is synced.`;
    throw new RollcallError('audience_paused', message);
  }
  if ((await store.pausedAudiences()).some((pause) => pause.key === key)) throw audiencePaused(key);
}

const audiencePaused = (key: string) =>
  new RollcallError('audience_paused', `${key} is paused: resume it before it is synced.`);

async function syncOne(sync: Syncing, key: string, now: number | undefined) {
  const [report] = await sync.run([key], { now });
  // A person has paused it in the meantime.
  if (report === undefined) throw audiencePaused(key);
  return report;
}
