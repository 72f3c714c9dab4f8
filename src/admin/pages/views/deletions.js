import { count, number } from '../format.js';
import { html } from '../html.js';
import { useData } from '../live.js';
import { addressOf, navigate } from '../router.js';
import { Pages } from '../search.js';
import { Empty, Facts, Folded, Head, Loaded, Section, State, Table, Time } from '../ui.js';

/** @import { Row } from '../api.js' */
/** @typedef {import('../api.js').Answer<'/deletions/{deletion}'>} Deletion */

/** The effect of each type of request. @type {Record<string, string>} */
const TYPES = {
  DELETE_ONLY: 'deletes',
  SUPPRESS_WITH_DELETE: 'deletes, and keeps out from then on',
  SUPPRESS_ONLY: 'keeps out from then on',
  UNSUPPRESS: 'lets in again',
};

/** @param {string} deletion */
const deletionAddress = (deletion) => addressOf('/deletions/{deletion}', { deletion });

/** All requests, or one. @param {{ id?: string }} props */
export default function Deletions({ id }) {
  if (id) return html`<${One} id=${id} />`;
  /** @param {any} event */
  const find = (event) => {
    event.preventDefault();
    navigate(deletionAddress(String(new FormData(event.target).get('id')).trim()));
  };
  const none = html`<${Empty} title="Nobody has asked for a deletion.">
    <p><code>rollcall forget USER_ID</code> files a request, and so does <code>POST /regulations</code>.</p>
  <//>`;
  return html`<${Head} title="Deletions"
        about="Requests to delete people or keep them out, and which destinations confirmed them." />
    <form class="filters" role="search" onSubmit=${find}>
      <label class="search">
        Id of a request
        <input type="search" name="id" required autocomplete="off" spellcheck=${false} />
      </label>
      <button type="submit">Look up</button>
    </form>
    <${Pages} path="/deletions" topics=${['deletions']} none=${none}>${(/** @type {Row<'/deletions'>[]} */ rows) =>
      html`<${Table} caption="Deletion requests, newest first" columns=${COLUMNS} rows=${rows} />`}<//>`;
}

/** @param {{ id: string }} props */
function One({ id }) {
  const live = useData(deletionAddress(id), ['deletions']);
  return html`<${Head} title="Deletion" up=${['/deletions', 'Deletions']} about=${html`<code>${id}</code>`} />
    <${Loaded} live=${live}>${(/** @type {Deletion} */ deletion) =>
      html`<${Facts} items=${[
        ['State', html`<${Standing} ...${deletion} />`],
        ['For what', COLUMNS[2]?.cell(deletion)],
        ['Who asked', deletion.by ?? '–'],
        ['Asked', html`<${Time} at=${deletion.createdAt} ago=${false} />`],
        ['Finished here', html`<${Time} at=${deletion.finishedAt} ago=${false} />`],
      ]} />
        <${Section} title="Who confirmed">${
          deletion.notices.length === 0
            ? html`<p class="soft">No destination knew them.</p>`
            : html`<ul>
              ${deletion.notices.map(
                (/** @type {Deletion['notices'][number]} */ notice) => html`<li key=${notice.destination}>
                  <${Confirmation} ...${notice} />
                </li>`,
              )}
            </ul>`
        }<//>`}<//>`;
}

/** @type {import('../ui.js').Column<Deletion>[]} */
const COLUMNS = [
  {
    title: 'When',
    cell: ({ createdAt, id }) =>
      html`<a href=${deletionAddress(id)}><${Time} at=${createdAt} ago=${false} /></a>
        <small><code>${id}</code></small>`,
  },
  { title: 'Who asked', cell: ({ by }) => by ?? '–' },
  {
    title: 'For what',
    cell: ({ type, users, sources }) =>
      html`${TYPES[type] ?? type} ${count(users, 'person', 'people')}
        ${sources && html`<small>of ${sources.join(', ')}</small>`}`,
  },
  { title: 'State', cell: Standing },
  {
    title: 'Who confirmed',
    wide: true,
    cell: ({ notices }) =>
      notices.length === 0
        ? '–'
        : html`<${Folded} length=${notices.length}
            sum=${`${number(notices.filter(isConfirmed).length)} of ${count(notices.length, 'destination')}`}>
          ${notices.map(
            (/** @type {Deletion['notices'][number]} */ notice) => html`<div key=${notice.destination}>
              <${Confirmation} ...${notice} />
            </div>`,
          )}
        <//>`,
  },
];

/** Finished means here: some destinations may still have the person. @param {Deletion} deletion */
function Standing({ status, notices }) {
  const open = notices.filter((each) => !isConfirmed(each)).length;
  if (status !== 'FINISHED' || open === 0) return html`<${State} of=${status} />`;
  return html`<${State} of="PARTIAL_SUCCESS" label="finished here" />
    <small class="sub">not at ${number(open)} of ${count(notices.length, 'destination')}</small>`;
}

/** @param {{ notices: number, confirmed: number }} notice */
const isConfirmed = ({ notices, confirmed }) => confirmed >= notices;

/** @param {{ destination: string, notices: number, confirmed: number, confirmedAt: string | null }} props */
function Confirmation({ destination, notices, confirmed, confirmedAt }) {
  if (isConfirmed({ confirmed, notices }))
    return html`<bdi>${destination}</bdi>, <${Time} at=${confirmedAt} ago=${false} />`;
  return html`<span class="warn-text"><bdi>${destination}</bdi>: ${number(confirmed)} of ${number(notices)}</span>`;
}
