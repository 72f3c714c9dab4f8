import { count, number } from '../format.js';
import { html } from '../html.js';
import { Pages } from '../search.js';
import { Empty, Folded, Head, State, Table, Time } from '../ui.js';

/** The effect of each type of request. @type {Record<string, string>} */
const TYPES = {
  DELETE_ONLY: 'deletes',
  SUPPRESS_WITH_DELETE: 'deletes, and keeps out from then on',
  SUPPRESS_ONLY: 'keeps out from then on',
  UNSUPPRESS: 'lets in again',
};

export default function Deletions() {
  const none = html`<${Empty} title="Nobody has asked for a deletion."><p><code>rollcall forget USER_ID</code> files a request, and so does <code>POST /regulations</code>.</p><//>`;
  return html`<${Head} title="Deletions" about="Requests to delete people or keep them out, and which destinations confirmed them." />
    <${Pages} path="/deletions" topics=${['deletions']} none=${none}>${(/** @type {any[]} */ rows) =>
      html`<${Table} caption="Deletion requests, newest first" columns=${COLUMNS} rows=${rows} keyOf=${(/** @type {any} */ { id }) => id} />`}<//>`;
}

/** @type {import('../ui.js').Column[]} */
const COLUMNS = [
  {
    title: 'When',
    cell: ({ createdAt, id }) => html`<${Time} at=${createdAt} ago=${false} /><small><code>${id}</code></small>`,
  },
  { title: 'Who asked', cell: ({ by }) => by ?? '–' },
  {
    title: 'For what',
    cell: ({ type, users, sources }) =>
      html`${TYPES[type] ?? type} ${count(users, 'person', 'people')}${sources && html`<small>of ${sources.join(', ')}</small>`}`,
  },
  { title: 'State', cell: ({ status }) => html`<${State} of=${status} />` },
  {
    title: 'Who confirmed',
    wide: true,
    cell: ({ notices }) =>
      notices.length === 0
        ? '–'
        : html`<${Folded} length=${notices.length} sum=${`${number(notices.filter(isConfirmed).length)} of ${count(notices.length, 'destination')}`}>
            ${notices.map((/** @type {any} */ notice) => html`<div key=${notice.destination}><${Confirmation} ...${notice} /></div>`)}<//>`,
  },
];

/** @param {{ notices: number, confirmed: number }} notice */
const isConfirmed = ({ notices, confirmed }) => confirmed >= notices;

/** @param {{ destination: string, notices: number, confirmed: number, confirmedAt: string | null }} props */
function Confirmation({ destination, notices, confirmed, confirmedAt }) {
  if (isConfirmed({ confirmed, notices })) return html`${destination}, <${Time} at=${confirmedAt} ago=${false} />`;
  return html`<span class="warn-text">${destination}: ${number(confirmed)} of ${number(notices)}</span>`;
}
