import { html } from '../html.js';
import { useAddress } from '../router.js';
import { Pages } from '../search.js';
import { Empty, Filters, Head, State, Table, Time } from '../ui.js';

/** @import { Row } from '../api.js' */

/** The audit log: who did what. */
export default function Activity() {
  const { who, action } = useAddress().query;
  const none = html`<${Empty} title=${who || action ? 'Nobody has done anything like that.' : 'Nobody has done anything yet.'}>
    <p>Approvals, pauses, replays, drops and other actions, here or on the command line, are listed.</p>
  <//>`;
  return html`<${Head} title="Activity" about="Actions of people and programs here, by the name of their token." />
    <${Filters}
        fields=${[{ name: 'who', title: 'Who' }, { name: 'action', title: 'Action' }]} />
    <${Pages} path="/audit" query=${{ who, action }} topics=${['audit']} waiting=${8} none=${none}>${(
      /** @type {Row<'/audit'>[]} */ rows,
    ) => html`<${Table} caption="What was done, newest first" columns=${COLUMNS} rows=${rows} keyOf=${keyOf} />`}<//>`;
}

/** @param {Row<'/audit'>} row */
const keyOf = ({ at, who, action, target }) => `${at} ${who} ${action} ${target}`;

/** @type {import('../ui.js').Column<Row<'/audit'>>[]} */
const COLUMNS = [
  { title: 'When', cell: ({ at }) => html`<${Time} at=${at} />` },
  { title: 'Who', cell: ({ who }) => who },
  { title: 'What', cell: ({ action }) => html`<code>${action}</code>` },
  { title: 'To what', wide: true, cell: ({ target }) => target ?? '–' },
  {
    title: 'Outcome',
    cell: ({ outcome }) =>
      html`<${State} of=${outcome === 'done' ? 'done' : outcome === null ? 'running' : 'failed'}
          label=${outcome ?? 'under way'} />`,
  },
];
