import { post } from '../api.js';
import { number } from '../format.js';
import { html } from '../html.js';
import { CONCERNS } from '../lists.js';
import { useData } from '../live.js';
import { addressOf } from '../router.js';
import { useRows } from '../search.js';
import { Trends } from '../trends.js';
import { Action, Empty, Figures, Head, Loaded, Section, Table, Time } from '../ui.js';
import { firstLine } from './audiences.js';

/** @typedef {import('../api.js').Answer<'/overview'>} Overview */
/** @typedef {Overview['attention'][number]} Need */
/** @typedef {import('../api.js').Row<'/alerts'>} Alert */

/** With more concerns than this, each kind shows only its first ones, so that they don't push everything else down. */
const NEEDS = 12;
const OF_A_KIND = 3;

/** An old alert may be of a rule that no longer exists. @param {{ kind: string }} need */
const kindOf = ({ kind }) => CONCERNS[kind] ?? { tone: 'warn', page: '/?find=', all: '/', these: 'things' };
/** @param {{ kind: string, subject: string }} need */
const hrefOf = (need) => kindOf(need).page + encodeURIComponent(need.subject);

/** Alerts among which open ones are looked for. */
const LOOKED_AT = 100;

/** The state of the service: concerns first, then figures and trends. @param {{ may: string[] }} props */
export default function Overview({ may }) {
  const live = useData('/overview', ['overview']);
  const alerts = useRows('/alerts', {}, LOOKED_AT, ['alerts']).rows ?? [];
  return html`<${Loaded} live=${live} rows=${8}>${(
    /** @type {Overview} */ overview,
  ) => html`<${Verdict} overview=${overview} />
    <${Needs} needs=${overview.attention} alerts=${alerts} may=${may} />
    <${Section} title="Now"><${Figures} items=${figuresOf(overview)} /><//>
    <${Trends} />`}<//>
    <${Alerts} alerts=${alerts} />`;
}

/** Alerts that are over and shown. Open ones stand at what needs a person. */
const ALERTS = 10;

/** @param {{ alerts: Alert[] }} props */
function Alerts({ alerts }) {
  const rows = alerts.filter(({ closedAt }) => closedAt !== null).slice(0, ALERTS);
  return (
    rows.length > 0 &&
    html`<${Section} title="Alerts that are over">
      <${Table} caption="Alerts that are over, newest first" columns=${ALERT_COLUMNS} rows=${rows}
          keyOf=${(/** @type {Alert} */ row) => row.alert} />
    <//>`
  );
}

/** @type {import('../ui.js').Column<Alert>[]} */
const ALERT_COLUMNS = [
  { title: 'Opened', cell: ({ openedAt }) => html`<${Time} at=${openedAt} ago=${false} />` },
  {
    title: 'Alert',
    cell: (alert) => html`<a href=${hrefOf(alert)}>${firstLine(alert.message)}</a>`,
    wide: true,
  },
  { title: 'Closed', cell: ({ closedAt }) => html`<${Time} at=${closedAt} ago=${false} />` },
];

/** @param {{ overview: Overview | null }} props - null until it is known */
function Verdict({ overview }) {
  const [tone, title] = overview === null ? ['quiet', 'Overview'] : verdictOf(overview);
  return html`<${Head} title="Overview" name=${html`<span class=${`verdict ${tone}`}>${title}</span>`} />
    ${
      overview?.sources === 0 || overview?.destinations === 0
        ? html`<${Empty} title=${overview.sources === 0 ? 'No source is configured.' : 'No destination is configured.'}>
          <p>
            Messages come from sources and go to destinations; both stand in the configuration file. <code>
              rollcall init
            </code> writes one to begin with.
          </p>
        <//>`
        : null
    }`;
}

/** @param {Overview} overview */
function verdictOf({ attention, destinations, sources }) {
  if (attention.length === 0)
    return sources === 0 || destinations === 0 ? ['quiet', 'Nothing to do yet'] : ['good', 'All is well'];
  const bad = attention.some((need) => kindOf(need).tone === 'bad');
  return [
    bad ? 'bad' : 'warn',
    attention.length === 1 ? 'One thing needs you' : `${number(attention.length)} things need you`,
  ];
}

/** @param {{ needs: Need[], alerts: Alert[], may: string[] }} props */
function Needs({ needs, alerts, may }) {
  if (needs.length === 0) return null;
  const open = new Map(
    alerts.filter(({ closedAt }) => closedAt === null).map((each) => [`${each.kind} ${each.subject}`, each]),
  );
  const most = needs.length > NEEDS ? OF_A_KIND : NEEDS;
  return html`<ul class="needs" aria-label="What needs a person">
    ${[...Map.groupBy(needs, ({ kind }) => kind)].map(
      ([kind, alike]) =>
        html`${alike.slice(0, most).map(
          (
            need,
          ) => html`<${Need} key=${`${kind} ${need.subject}`} need=${need} alert=${open.get(`${kind} ${need.subject}`)}
              may=${may} />`,
        )}
          ${alike.length > most && html`<${Further} key=${kind} kind=${kindOf({ kind })} count=${alike.length - most} />`}`,
    )}
  </ul>`;
}

/** @param {{ kind: ReturnType<typeof kindOf>, count: number }} props */
function Further({ kind: { tone, these, all }, count }) {
  return html`<li class=${tone}>
    <p>${number(count)} more ${these}</p>
    <div class="buttons"><a class="button" href=${all}>Look<span class="unseen"> at those that ${these}</span></a></div>
  </li>`;
}

/** @param {{ need: Need, alert: Alert | undefined, may: string[] }} props - `alert`: undefined if none was sent */
function Need({ need, alert, may }) {
  const { kind, subject, message, since, destination, audience } = need;
  const { tone } = kindOf(need);
  const name = audience ?? destination ?? subject;
  const said = firstLine(message);
  const resume = async () => {
    await post(addressOf('/endpoints/{endpoint}/resume', { endpoint: subject }));
    return `${destination} is posted to again within seconds.`;
  };
  return html`<li class=${tone}>
    <p>
      <a href=${hrefOf(need)}><strong><bdi>${name}</bdi></strong></a>
      ${said.startsWith(name) ? said.slice(name.length) : `: ${said}`}
      ${
        (since || alert) &&
        html`<small class="sub">
          ${since && html`since <${Time} at=${since} ago=${false} />`}
          ${since && alert ? ', ' : ''}
          ${alert && html`announced <${Time} at=${alert.openedAt} ago=${false} />`}
        </small>`
      }
    </p>
    <div class="buttons">
      ${
        kind.startsWith('endpoint') &&
        may.includes('operate') &&
        html`<${Action} run=${resume}>
          ${kind === 'endpointPaused' ? 'Resume' : 'Try again'}
        <//>`
      }
      <a class="button" href=${hrefOf(need)}>${kind === 'runHeld' ? 'Decide' : 'Look'}</a>
    </div>
  </li>`;
}

/** @param {Overview} overview */
function figuresOf({ attention, pending, dead, heldOut, endpoints, audiences }) {
  const closed = endpoints.dead + endpoints.refusing + endpoints.paused;
  const { open, disabled } = endpoints;
  const all = open + closed + disabled;
  const shut = [
    ...(closed > 0 ? [`${number(closed)} take${closed === 1 ? 's' : ''} nothing`] : []),
    ...(disabled > 0 ? [`${number(disabled)}\u00a0disabled`] : []),
  ];
  const [failed, held] = ['runFailed', 'runHeld'].map((kind) => countOf(attention, kind));
  const troubles = [...(failed ? [`${number(failed)} failed`] : []), ...(held ? [`${number(held)} held`] : [])];
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
      value: open < all ? `${number(open)} of ${number(all)}` : number(all),
      tone: closed > 0 ? 'bad' : undefined,
      note: html`<a href="/endpoints">${shut.join(', ') || (all === 0 ? 'none' : 'all of them take deliveries')}</a>`,
    },
    {
      title: 'Audiences',
      value: number(audiences),
      tone: failed ? 'bad' : held ? 'warn' : undefined,
      note: html`<a href="/audiences">${troubles.join(', ') || (audiences === 0 ? 'none' : 'look at them')}</a>`,
    },
  ];
}

/** @param {Need[]} attention @param {string} kind */
const countOf = (attention, kind) => attention.filter((need) => need.kind === kind).length;
