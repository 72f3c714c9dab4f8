import * as z from 'zod';
import { CONCERNS } from '../../concern.ts';
import type { Config } from '../../config/config.ts';
import type { ServiceStanding } from '../concerns.ts';
import { sharedLook } from '../shared-look.ts';
import { type ApiRoutes, reading } from './route.ts';
import { time } from './shapes.ts';

const concern = z.object({
  kind: z.enum(CONCERNS),
  subject: z.string().describe('The id of an endpoint or a source, a destination or the key of an audience.'),
  destination: z.string().optional(),
  audience: z.string().optional(),
  source: z.string().optional(),
  run: z.string().optional(),
  since: time.nullable(),
  message: z.string(),
});

const overview = z.object({
  attention: z
    .array(concern)
    .describe('Everything that needs a person; problems that stop deliveries come first. Empty: all is well.'),
  pending: z.int(),
  dead: z.int().describe('Dead letters, those held out included.'),
  heldOut: z.int(),
  endpoints: z.object({
    open: z.int(),
    dead: z.int(),
    refusing: z.int(),
    paused: z.int(),
    disabled: z.int(),
  }),
  audiences: z.int(),
  destinations: z.int(),
  sources: z.int(),
});

export interface OverviewParts {
  readonly config: () => Config;
  readonly standing: () => Promise<ServiceStanding>;
}

export function overviewRoutes(routes: ApiRoutes, { config, standing }: OverviewParts): void {
  // All open pages request it at once when something has changed.
  const look = sharedLook(standing);
  reading(routes, '/overview', {
    summary: 'How everything stands, and what needs a person',
    tag: 'Overview',
    answer: overview,
    handle: async () => {
      const { destinations, sources } = config();
      const { concerns, endpoints, backlogs, audiences } = await look();
      const inState = (state: string) => endpoints.filter((each) => each.state === state).length;
      const total = (of: 'pending' | 'dead' | 'heldOut') => backlogs.reduce((sum, backlog) => sum + backlog[of], 0);
      return {
        attention: concerns.map(({ usual, ...concern }) => concern),
        pending: total('pending'),
        dead: total('dead'),
        heldOut: total('heldOut'),
        endpoints: {
          open: inState('open'),
          dead: inState('dead'),
          refusing: inState('refusing'),
          paused: inState('paused'),
          disabled: inState('disabled'),
        },
        audiences: audiences.length,
        destinations: destinations.length,
        sources: sources.length,
      };
    },
  });
}
