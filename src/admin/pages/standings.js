import { count, number } from './format.js';
import { html } from './html.js';
import { addressOf } from './router.js';
import { Empty, Section, State, Table, Time } from './ui.js';

/** @typedef {import('./api.js').Answer<'/audiences/{key}'>['destinations'][number]} Standing */

/** @type {Record<string, [tone: string, label: string]>} */
const STATES = {
  new: ['quiet', 'not computed yet'],
  current: ['ok', 'has every change'],
  later: ['quiet', 'changes only (backfill: skip)'],
  to_come: ['pending', 'whole membership to come'],
  lapsed: ['held', 'missed changes'],
  to_end: ['held', 'end to come'],
};

/**
 * What destinations know of audiences.
 *
 * @param {{ standings: Standing[], of: 'audience' | 'destination' }} props - `of`: the thing they have in common, which is not repeated
 */
export function Standings({ standings, of }) {
  const title = of === 'audience' ? 'What each destination knows' : 'What it knows of each audience';
  return html`<${Section} title=${title}>${
    standings.length === 0
      ? html`<${Empty} title=${of === 'audience' ? 'No destination gets it.' : 'It gets no audience.'} />`
      : html`<${Table} caption=${title} columns=${of === 'audience' ? [DESTINATION, ...COLUMNS] : [AUDIENCE, ...COLUMNS]}
          rows=${standings} keyOf=${(/** @type {Standing} */ { key, destination }) => `${key} ${destination}`} />`
  }<//>`;
}

/** @typedef {import('./ui.js').Column<Standing>} Column */

/** @type {Column} */
const DESTINATION = {
  title: 'Destination',
  wide: true,
  cell: ({ destination }) =>
    html`<a href=${addressOf('/endpoints', { find: destination })}><bdi>${destination}</bdi></a>`,
};

/** @type {Column} */
const AUDIENCE = {
  title: 'Audience',
  wide: true,
  cell: ({ key, kind }) =>
    html`<a href=${addressOf('/audiences/{key}', { key })}><bdi>${key}</bdi></a>
      ${kind === 'trait' ? html` <span class="soft">trait</span>` : null}`,
};

/** @type {Column[]} */
const COLUMNS = [
  {
    title: 'Knows',
    cell: ({ state, since, run }) => {
      const [tone = 'quiet', label = state] = STATES[state] ?? [];
      return html`<${State} of=${tone} label=${label} />
        ${since && html`<small>since <${Time} at=${since} ago=${false} /></small>`}
        ${
          run &&
          html`<small>
            ${run.action}: ${number(run.sent)}
            ${run.action === 'backfill' ? ` of ${count(run.members, 'member')}` : ''} queued
          </small>`
        }`;
    },
  },
  {
    title: 'Waits for it',
    number: true,
    cell: ({ pending }) => html`<span class=${pending > 0 ? 'warn-text' : ''}>${number(pending)}</span>`,
  },
  { title: 'Dead letters', number: true, cell: ({ dead }) => number(dead) },
];
