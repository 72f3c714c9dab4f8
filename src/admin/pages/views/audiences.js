import { count, duration, number } from '../format.js';
import { html } from '../html.js';
import { EXAMPLES } from '../lists.js';
import { addressOf, refine, useAddress } from '../router.js';
import { useAll } from '../search.js';
import { Empty, Filters, Head, Loaded, State, Table, Time } from '../ui.js';

/** @import { Answer, Row } from '../api.js' */
/** @typedef {Row<'/history/sums'>} Day */
/** @typedef {Row<'/audiences'> & { day: Partial<Day> }} Listed */

export default function Audiences() {
  const live = useAll('/audiences', ['audiences', 'runs']);
  const sums = useAll('/history/sums?of=audience', ['history']).data?.data ?? [];
  const days = new Map(sums.map((/** @type {Day} */ sum) => [sum.name, sum]));
  const { query } = useAddress();
  return html`<${Head} title="Audiences" about="Audiences and computed traits, with who entered and left in the last day." />
    <${Loaded} live=${live} rows=${8}>${(
      /** @type {Answer<'/audiences'>} */ answer,
    ) => html`<${List} all=${answer.data.map((each) => ({ ...each, day: days.get(each.key) ?? {} }))}
        query=${query} />`}<//>`;
}

/** @param {{ all: Listed[], query: Record<string, string> }} props */
function List({ all, query }) {
  if (all.length === 0) {
    return html`<${Empty} title="No audience is configured.">
      <p>Add one to the configuration file; its first sync sends every member.</p>
      <pre>${EXAMPLES.audiences}</pre>
    <//>`;
  }
  const { find = '', state = '' } = query;
  const states = [...new Set(all.map((each) => each.state))].toSorted();
  const shown = all
    .filter(
      (each) =>
        `${each.key} ${each.owner ?? ''}`.toLowerCase().includes(find.toLowerCase()) &&
        (state === '' || each.state === state),
    )
    // Those that need a person go first. The others keep their order.
    .toSorted((one, other) => Number(one.todo === null) - Number(other.todo === null));
  return html`<${Filters} find="Name or owner"
        choices=${[{ name: 'state', title: 'State', options: states.map((each) => [each, `${each} (${all.filter((one) => one.state === each).length})`]) }]} />
    ${
      shown.length === 0
        ? html`<${Empty} title="No audience is like that.">
          <button type="button" onClick=${() => refine({})}>Show all</button>
        <//>`
        : html`<${Table} caption="Audiences" columns=${COLUMNS} rows=${shown}
              keyOf=${(/** @type {Listed} */ row) => row.key} />
          <p class="more">${count(shown.length, 'audience')}</p>`
    }`;
}

/** @param {string} key */
export const audienceAddress = (key) => addressOf('/audiences/{key}', { key });

/** @param {string} key @param {string} user @param {string} [at] */
export const memberAddress = (key, user, at) => addressOf('/audiences/{key}/members/{user}', { key, user, at });

/** @type {import('../ui.js').Column<Listed>[]} */
const COLUMNS = [
  {
    title: 'Name',
    wide: true,
    by: ({ key }) => key,
    cell: ({ key, kind, todo, owner }) =>
      html`<a href=${audienceAddress(key)}><bdi>${key}</bdi></a>
        ${kind === 'trait' ? html` <span class="soft">trait</span>` : null}
        ${owner ? html` <bdi class="soft">${owner}</bdi>` : null}
        ${todo && 'reason' in todo ? html`<small>${firstLine(todo.reason)}</small>` : null}`,
  },
  {
    title: 'State',
    cell: ({ state, ordered }) =>
      html`<${State} of=${state} />${ordered ? html`<small>${ordered.action} ordered</small>` : null}`,
  },
  {
    title: 'Members',
    number: true,
    by: ({ members }) => members,
    cell: ({ members }) => number(members),
  },
  {
    title: 'Entered',
    number: true,
    by: ({ day }) => day.entered ?? 0,
    cell: ({ day }) => (day.entered ? html`<span class="good-text">+${number(day.entered)}</span>` : '0'),
  },
  {
    title: 'Left',
    number: true,
    by: ({ day }) => day.exited ?? 0,
    cell: ({ day }) => (day.exited ? html`<span class="bad-text">−${number(day.exited)}</span>` : '0'),
  },
  { title: 'Trend', cell: ({ trend }) => html`<${Trend} sizes=${trend} />` },
  {
    title: 'Last run',
    by: ({ lastRun }) => lastRun?.startedAt,
    cell: ({ lastRun }) => html`<${Time} at=${lastRun?.startedAt} />`,
  },
  {
    title: 'Next run',
    cell: ({ nextRunAt, schedule, live }) =>
      live
        ? liveText(live)
        : nextRunAt
          ? html`<${Time} at=${nextRunAt} />`
          : html`<span class="none">${schedule ? '–' : 'by hand'}</span>`,
  },
];

/**
 * The state of a live audience.
 *
 * @param {{ lag: number | null, progress: number | null, hold: string | null }} live
 */
export function liveText({ lag, progress, hold }) {
  if (progress !== null) return `live, ${lag === null ? 'building' : 'rebuilding'} (${Math.floor(100 * progress)} %)`;
  if (lag === null) return 'live, not computed yet';
  if (hold !== null) return 'live, on hold';
  return lag < 1_000 ? 'live' : `live, ${duration(lag)} behind`;
}

/** @param {string} text */
export const firstLine = (text) => text.split('\n', 1)[0] ?? '';

/** Sizes after the last runs. @param {{ sizes: readonly number[] }} props */
function Trend({ sizes }) {
  if (sizes.length < 2) return html`<span class="none">–</span>`;
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
  const step = 72 / (sizes.length - 1);
  /** @param {number} size */
  const height = (size) => (most === least ? 9 : 16 - (14 * (size - least)) / (most - least));
  const points = sizes.map((size, index) => `${(1 + index * step).toFixed(1)},${height(size).toFixed(1)}`).join(' ');
  return html`<svg class="trend" width="74" height="18" role="img"
      aria-label=${`From ${number(sizes[0] ?? 0)} to ${number(sizes.at(-1) ?? 0)} members`}>
    <polyline points=${points} />
  </svg>`;
}
