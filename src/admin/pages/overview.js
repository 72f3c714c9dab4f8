import { post } from './api.js';
import { audienceAddress, firstLine } from './audiences.js';
import { count, number } from './format.js';
import { html } from './html.js';
import { refreshAll, useData } from './live.js';
import { addressOf } from './router.js';
import { Trends } from './trends.js';
import { Action, Empty, Figures, Head, Loaded, Section, State, Table, Time } from './ui.js';

/** More would push everything else off the page. */
const NEEDS = 12;

/** @param {any} need */
const toEndpoint = ({ subject }) => `/endpoints/${encodeURIComponent(subject)}`;
/** @param {any} need */
const toAudience = ({ audience }) => audienceAddress(audience);

/** How pressing each kind is, and where it is looked at. @type {Record<string, { tone: 'warn' | 'bad', href: (need: any) => string }>} */
const KINDS = {
  endpointDead: { tone: 'bad', href: toEndpoint },
  endpointRefusing: { tone: 'bad', href: toEndpoint },
  endpointPaused: { tone: 'warn', href: toEndpoint },
  deadLetters: { tone: 'bad', href: ({ destination }) => addressOf('/dead-letters', { destination }) },
  queueFull: {
    tone: 'bad',
    href: ({ destination }) => addressOf('/dead-letters', { destination, reason: 'queue_full' }),
  },
  runHeld: { tone: 'warn', href: toAudience },
  runFailed: { tone: 'bad', href: toAudience },
  runOverdue: { tone: 'warn', href: toAudience },
  unusualSize: { tone: 'warn', href: toAudience },
  backlogOld: { tone: 'warn', href: ({ destination }) => addressOf('/endpoints', { find: destination }) },
  audienceOrphaned: { tone: 'warn', href: toAudience },
};
/** @param {any} need */
const kindOf = ({ kind, audience }) =>
  KINDS[kind] ?? { tone: 'warn', href: audience == null ? () => '/endpoints' : toAudience };

/** How things stand at a glance: what needs a person first, then what passes. @param {{ may: string[] }} props */
export function Overview({ may }) {
  const live = useData('/overview', ['overview']);
  return html`<${Loaded} live=${live} rows=${8}>${(
    /** @type {any} */ overview,
  ) => html`<${Verdict} overview=${overview} />
    <${Needs} needs=${overview.attention} may=${may} />
    <${Section} title="Now"><${Figures} items=${figuresOf(overview)} /><//>
    <${Trends} />`}<//>
    <${Alerts} />`;
}

/** What people were told; nothing where nobody is to be. */
function Alerts() {
  const { data } = useData('/alerts?limit=10', ['alerts']).data ?? { data: [] };
  // They come in the order in which they began; some are told of later.
  const rows = data.toSorted((/** @type {any} */ one, /** @type {any} */ other) =>
    other.openedAt.localeCompare(one.openedAt),
  );
  return (
    data.length > 0 &&
    html`<${Section} title="Alerts"><${Table} caption="Alerts, newest first" columns=${ALERT_COLUMNS} rows=${rows} keyOf=${(/** @type {any} */ row) => row.alert} /><//>`
  );
}

/** @type {import('./ui.js').Column[]} */
const ALERT_COLUMNS = [
  { title: 'Opened', cell: ({ openedAt }) => html`<${Time} at=${openedAt} ago=${false} />` },
  {
    title: 'Alert',
    cell: (alert) => html`<a href=${kindOf(alert).href(alert)}>${firstLine(alert.message)}</a>`,
    wide: true,
  },
  {
    title: 'Closed',
    cell: ({ closedAt }) =>
      closedAt ? html`<${Time} at=${closedAt} ago=${false} />` : html`<${State} of="failed" label="open" />`,
  },
];

/** @param {{ overview: any }} props - null until it is known */
function Verdict({ overview }) {
  const [tone, title] = overview === null ? ['quiet', 'Overview'] : verdictOf(overview);
  return html`<${Head} title="Overview" name=${html`<span class=${`verdict ${tone}`}>${title}</span>`} />
    ${
      overview?.sources === 0 || overview?.destinations === 0
        ? html`<${Empty} title=${overview.sources === 0 ? 'No source is configured.' : 'No destination is configured.'}>
      <p>Messages come from sources and go to destinations; both stand in the configuration file. <code>rollcall init</code> writes one to begin with.</p><//>`
        : null
    }`;
}

/** @param {any} overview */
function verdictOf({ attention, destinations, sources }) {
  if (attention.length === 0)
    return sources === 0 || destinations === 0 ? ['quiet', 'Nothing to do yet'] : ['good', 'All is well'];
  const bad = attention.some((/** @type {any} */ need) => kindOf(need).tone === 'bad');
  return [
    bad ? 'bad' : 'warn',
    attention.length === 1 ? 'One thing needs you' : `${number(attention.length)} things need you`,
  ];
}

/** @param {{ needs: any[], may: string[] }} props */
function Needs({ needs, may }) {
  if (needs.length === 0) return null;
  const further = needs.length - NEEDS;
  return html`<ul class="needs" aria-label="What needs a person">
      ${needs.slice(0, NEEDS).map((need) => html`<${Need} key=${`${need.kind} ${need.subject}`} need=${need} may=${may} />`)}
    </ul>
    ${further > 0 && html`<p class="more">And ${number(further)} more: see <a href="/endpoints">endpoints</a>, <a href="/audiences">audiences</a> and <a href="/dead-letters">dead letters</a>.</p>`}`;
}

/** @param {{ need: any, may: string[] }} props */
function Need({ need, may }) {
  const { kind, subject, message, since, destination, audience } = need;
  const { tone, href } = kindOf(need);
  const name = audience ?? destination ?? subject;
  const said = firstLine(message);
  const resume = async () => {
    await post(`/endpoints/${encodeURIComponent(subject)}/resume`);
    refreshAll();
    return `${destination} is posted to again within seconds.`;
  };
  return html`<li class=${tone}>
    <p><a href=${href(need)}><strong>${name}</strong></a> ${said.startsWith(name) ? said.slice(name.length) : `: ${said}`}</p>
    ${since && html`<span class="soft">since <${Time} at=${since} ago=${false} /></span>`}
    <div class="buttons">
      ${kind.startsWith('endpoint') && may.includes('operate') && html`<${Action} run=${resume}>Try again<//>`}
      <a class="button" href=${href(need)}>${kind === 'runHeld' ? 'Decide' : 'Look'}</a>
    </div>
  </li>`;
}

/** @param {any} overview */
function figuresOf({ pending, dead, heldOut, endpoints, audiences }) {
  const closed = endpoints.dead + endpoints.refusing + endpoints.paused;
  const all = endpoints.open + closed + endpoints.disabled;
  return [
    { title: 'Waiting', value: number(pending), note: 'neither delivered nor dead' },
    {
      title: 'Dead letters',
      value: number(dead),
      tone: dead > heldOut ? 'bad' : undefined,
      note:
        heldOut > 0
          ? `${number(heldOut)} wait for room`
          : dead > 0
            ? html`<a href="/dead-letters">look at them</a>`
            : 'none',
    },
    {
      title: 'Endpoints',
      value: number(all),
      tone: closed > 0 ? 'bad' : undefined,
      note: html`<a href="/endpoints">${closed > 0 ? `${count(closed, 'endpoint')} closed` : all === 0 ? 'none' : 'all are open'}</a>`,
    },
    { title: 'Audiences', value: number(audiences), note: html`<a href="/audiences">look at them</a>` },
  ];
}
