import { html } from '../html.js';
import { useData } from '../live.js';
import { addressOf, refine, useAddress } from '../router.js';
import { Empty, Filters, Head, Loaded, State, Table, Time } from '../ui.js';

const ROWS = 50;

/** The audit log: who did what. */
export default function Activity() {
  const { query } = useAddress();
  const { who, action, rows = String(ROWS) } = query;
  const live = useData(addressOf('/audit', { who, action, limit: rows }), ['audit']);
  return html`<${Head} title="Activity" about="Actions of people and programs here, by the name of their token." />
    <${Filters}
      fields=${[{ name: 'who', title: 'Who' }, { name: 'action', title: 'Action' }]} />
    <${Loaded} live=${live} rows=${8}>${(/** @type {any} */ { data, next }) =>
      data.length === 0
        ? html`<${Empty} title=${who || action ? 'Nobody has done anything like that.' : 'Nobody has done anything yet.'}>
            <p>Approvals, pauses, replays, drops and other actions, here or on the command line, are listed.</p><//>`
        : html`<${Table} caption="What was done, newest first" columns=${COLUMNS} rows=${data} keyOf=${keyOf} />
          <div class="more"><span>${data.length} shown</span>${
            next &&
            html`<button type="button" onClick=${() => refine({ ...query, rows: String(Math.min(500, data.length + ROWS)) })}>
              Show more</button>`
          }</div>`}<//>`;
}

/** @param {any} row */
const keyOf = ({ at, who, action, target }) => `${at} ${who} ${action} ${target}`;

/** @type {import('../ui.js').Column[]} */
const COLUMNS = [
  { title: 'When', cell: ({ at }) => html`<${Time} at=${at} />` },
  { title: 'Who', cell: ({ who }) => who },
  { title: 'What', cell: ({ action }) => html`<code>${action}</code>` },
  { title: 'To what', wide: true, cell: ({ target }) => target ?? '' },
  {
    title: 'Outcome',
    cell: ({ outcome }) =>
      html`<${State} of=${outcome === 'done' ? 'done' : outcome === null ? 'running' : 'failed'} label=${outcome ?? 'under way'} />`,
  },
];
