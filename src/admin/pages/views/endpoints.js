import { count, duration, number, percent } from '../format.js';
import { html } from '../html.js';
import { EXAMPLES } from '../lists.js';
import { addressOf, refine, useAddress } from '../router.js';
import { useAll } from '../search.js';
import { Empty, Filters, Head, Loaded, State, Table, Time } from '../ui.js';

/** @import { Answer, Row } from '../api.js' */
/** @typedef {Row<'/history/sums'>} Day */
/** @typedef {Row<'/endpoints'> & { day: Day | undefined }} Endpoint */

/** Rows drawn at first. The rest is drawn on demand, since there may be a thousand destinations. */
const SHOWN = 100;
/** Endpoints that need a person go first. The others keep their order, so that nothing moves without a reason. */
const ORDER = ['refusing', 'dead', 'paused', 'open', 'disabled'];

export default function Endpoints() {
  const live = useAll('/endpoints?limit=5000', ['endpoints', 'messages']);
  const { data: sums } = useAll('/history/sums?of=endpoint&limit=5000', ['history']).data ?? { data: [] };
  const days = new Map(sums.map((/** @type {Day} */ sum) => [sum.name, sum]));
  return html`<${Head} title="Endpoints" about="Every URL that is posted to, and how it answers." />
    <${Loaded} live=${live} rows=${8}>
      ${(/** @type {Answer<'/endpoints'>} */ { data }) => html`<${List} all=${data.map((each) => ({ ...each, day: days.get(each.endpoint) }))} />`}
    <//>`;
}

/** @param {{ all: Endpoint[] }} props */
function List({ all }) {
  const { query } = useAddress();
  if (all.length === 0) {
    return html`<${Empty} title="No destination is configured.">
      <p>Add one to the configuration file: its <code>webhooks</code> are the endpoints.</p>
      <pre>${EXAMPLES.destinations}</pre>
    <//>`;
  }
  const { find = '', state = '', rows = String(SHOWN) } = query;
  const text = find.toLowerCase();
  const shown = all
    .filter(
      (each) =>
        (state === '' || each.state === state) && `${each.destination} ${each.url}`.toLowerCase().includes(text),
    )
    .toSorted((one, other) => ORDER.indexOf(one.state) - ORDER.indexOf(other.state));
  const states = ORDER.map((name) => ({ name, count: all.filter((each) => each.state === name).length })).filter(
    ({ count }) => count > 0,
  );
  return html`<${Filters} find="Destination or URL"
        choices=${[{ name: 'state', title: 'State', options: states.map(({ name, count }) => [name, `${name} (${number(count)})`]) }]} />
    ${
      shown.length === 0
        ? html`<${Empty} title="No endpoint is like that.">
          <button type="button" onClick=${() => refine({})}>Show all</button>
        <//>`
        : html`<${Table} caption="Endpoints" columns=${COLUMNS} rows=${shown.slice(0, Number(rows))}
              keyOf=${(/** @type {Endpoint} */ row) => row.endpoint} />
          <div class="more">
            <span>
              ${shown.length > Number(rows) ? `${number(Number(rows))} of ${count(shown.length, 'endpoint')}` : count(shown.length, 'endpoint')}
            </span>
            ${
              shown.length > Number(rows) &&
              html`<button type="button" onClick=${() => refine({ ...query, rows: String(Number(rows) + SHOWN) })}>
                Show more
              </button>`
            }
          </div>`
    }`;
}

/** @param {{ endpoint: string }} each */
export const endpointAddress = ({ endpoint }) => addressOf('/endpoints/{endpoint}', { endpoint });

/** The share of accepted attempts below which something is wrong. */
export const ENOUGH = 0.9;

/** @param {Partial<Day> | undefined} day - counts of attempts in a day; undefined if there were none */
export const attemptsOf = ({ succeeded, retried, refused } = {}) => (succeeded ?? 0) + (retried ?? 0) + (refused ?? 0);

/** @param {Day | undefined} day @returns {number | null} - null if there were no attempts */
export const shareOf = (day) => (attemptsOf(day) === 0 ? null : (day?.succeeded ?? 0) / attemptsOf(day));

/** @param {{ day: Day | undefined }} props */
function Taken({ day }) {
  const [all, share] = [attemptsOf(day), shareOf(day)];
  if (share === null) return '–';
  return html`<span class=${share < ENOUGH ? 'bad-text' : ''}>${percent(share)}</span><small>of ${number(all)}</small>`;
}

/** @type {import('../ui.js').Column<Endpoint>[]} */
const COLUMNS = [
  {
    title: 'Destination',
    wide: true,
    by: ({ destination }) => destination,
    cell: (each) => html`<a href=${endpointAddress(each)}><bdi>${each.destination}</bdi></a><small>${each.url}</small>`,
  },
  {
    title: 'State',
    cell: ({ state, since, cause, answer }) =>
      html`<${State} of=${state} />
        ${since ? html`<small>since <${Time} at=${since} /></small>` : null}
        ${cause ? html`<small>${cause.replaceAll('_', ' ')}${answer && `: ${answer}`}</small>` : null}`,
  },
  {
    title: 'Taken in a day',
    number: true,
    by: ({ day }) => shareOf(day),
    cell: ({ day }) => html`<${Taken} day=${day} />`,
  },
  {
    title: 'Answers within',
    number: true,
    by: ({ day }) => day?.p50Ms,
    cell: ({ day }) =>
      day?.p50Ms == null ? '–' : html`${duration(day.p50Ms)}<small>95 % in ${duration(day.p95Ms)}</small>`,
  },
  { title: 'Waiting', number: true, by: ({ pending }) => pending, cell: ({ pending }) => number(pending) },
  {
    title: 'Dead letters',
    number: true,
    by: ({ dead }) => dead,
    cell: ({ dead, destination }) =>
      dead === 0 ? '0' : html`<a href=${addressOf('/dead-letters', { destination })}>${number(dead)}</a>`,
  },
];
