import mapValues from 'lodash/mapValues.js';
import { RULES } from '../concern.ts';
import { PROPERTY_OPERATORS } from '../definition/definition.ts';
import { OPERATORS } from '../definition/operators.ts';
import { DEAD_REASONS } from '../kernel/dead-reasons.ts';
import { MESSAGE_TYPES } from '../message-types.ts';
import { MESSAGE_STATES, OUTCOMES } from '../store/port.ts';

/**
 * Every page: its path, and the file in `pages/views` that draws it. The view gets the parts of the path that begin with a
 * colon. Pages with a title are in the navigation.
 */
export const PAGES: readonly { path: string; view: string; title?: string }[] = [
  { path: '/', view: 'overview', title: 'Overview' },
  { path: '/audiences', view: 'audiences', title: 'Audiences' },
  { path: '/audiences/:name', view: 'audience' },
  { path: '/audiences/:name/runs/:run', view: 'run' },
  { path: '/audiences/:name/members/:user', view: 'story' },
  { path: '/try', view: 'try', title: 'Try' },
  { path: '/people', view: 'person', title: 'People' },
  { path: '/people/:user', view: 'person' },
  { path: '/endpoints', view: 'endpoints', title: 'Endpoints' },
  { path: '/endpoints/:id', view: 'endpoint' },
  { path: '/messages', view: 'messages', title: 'Messages' },
  { path: '/messages/:id', view: 'message' },
  { path: '/dead-letters', view: 'dead-letters', title: 'Dead letters' },
  { path: '/sources', view: 'sources', title: 'Sources' },
  { path: '/events', view: 'events', title: 'Events' },
  { path: '/events/sends', view: 'event-sends' },
  { path: '/deletions', view: 'deletions', title: 'Deletions' },
  { path: '/deletions/:id', view: 'deletions' },
  { path: '/activity', view: 'activity', title: 'Activity' },
  { path: '/sign-in', view: 'sign-in' },
];

/** What the pages tell newcomers to write. Scripts are sent without indents, so they can't have it. */
const EXAMPLES = {
  sources: `sources:
  - { id: shop, writeKey: "\${SHOP_WRITE_KEY}" }`,
  destinations: `destinations:
  - name: crm
    sources: [shop]
    sharedSecret: "\${CRM_SECRET}"
    webhooks:
      - url: https://crm.example.com/hooks`,
  audiences: `audiences:
  - name: Big Spenders
    source: personas
    schedule: "*/15 * * * *"
    sql: select user_id from orders group by 1 having sum(amount) > 500`,
};

/** Lists shared by pages and server. Browsers get them as `lists.js`, with types in `pages/lists.d.ts`. */
export const PAGE_LISTS = {
  PAGES,
  CONCERNS: mapValues(RULES, ({ tone, page, all, many, these = many }) => ({ tone, page, all, these })),
  REASONS: DEAD_REASONS,
  KINDS: MESSAGE_TYPES,
  OUTCOMES,
  STATES: MESSAGE_STATES,
  OPERATORS: mapValues(OPERATORS, ({ takes }) => takes),
  VALUE_OPERATORS: ['count', ...PROPERTY_OPERATORS],
  EXAMPLES,
} satisfies typeof import('./pages/lists.js');
