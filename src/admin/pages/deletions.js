import { useState } from 'preact/hooks';
import { html } from './html.js';
import { useData } from './live.js';
import { Empty, Facts, Head, Loaded, Problem, Section, State, Table, Time } from './ui.js';

/** What each type of request does. @type {Record<string, string>} */
const TYPES = {
  DELETE_ONLY: 'deletes',
  SUPPRESS_WITH_DELETE: 'deletes, and keeps out from then on',
  SUPPRESS_ONLY: 'keeps out from then on',
  UNSUPPRESS: 'lets in again',
};

/** @param {{ may: string[] }} props */
export function Deletions({ may }) {
  const live = useData('/audit?action=regulation.file&limit=100', ['audit', 'deletions']);
  return html`<${Head} title="Deletions" about="Who asked for people to be deleted or kept out, and what became of it." />
    ${may.includes('delete') && html`<${Find} />`}
    <${Section} title="Requests">
      <${Loaded} live=${live}>${(/** @type {any} */ { data }) =>
        data.length === 0
          ? html`<${Empty} title="Nobody has asked for a deletion."><p><code>rollcall forget USER_ID</code> files a request, and so does <code>POST /regulations</code>.</p><//>`
          : html`<${Table} caption="Deletion requests, newest first" columns=${COLUMNS} rows=${data} keyOf=${keyOf} />`}<//>
    <//>`;
}

/** @param {any} row */
const keyOf = ({ at, who, target }) => `${at} ${who} ${target}`;

/** @type {import('./ui.js').Column[]} */
const COLUMNS = [
  { title: 'When', cell: ({ at }) => html`<${Time} at=${at} />` },
  { title: 'Who asked', cell: ({ who }) => who },
  { title: 'For what', wide: true, cell: ({ target }) => target },
  {
    title: 'Filed',
    cell: ({ outcome }) =>
      html`<${State} of=${outcome === 'done' ? 'done' : 'failed'} label=${outcome ?? 'under way'} />`,
  },
];

/** A request by its id, which whoever filed it was given. */
function Find() {
  const [id, setId] = useState('');
  const [found, setFound] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  /** @param {Event} event */
  const find = async (event) => {
    event.preventDefault();
    const response = await fetch(`/regulations/${encodeURIComponent(id)}`);
    const answer = await response.json();
    setFound(response.ok ? answer.data.regulation : null);
    setError(response.ok ? null : answer);
  };
  return html`<form class="filters" role="search" onSubmit=${find}>
      <label class="search">Id of a request<input type="search" value=${id} required autocomplete="off" spellcheck=${false}
        onInput=${(/** @type {any} */ event) => setId(event.target.value)} /></label>
      <button type="submit">Look up</button>
    </form>
    ${error && html`<${Problem} error=${error} />`}
    ${found && html`<div class="panel" role="status"><${Facts} items=${factsOf(found)} /></div>`}`;
}

/** @param {any} request @returns {[string, import('preact').ComponentChildren][]} */
const factsOf = ({ regulationType, overallStatus, subjects, sources, createdAt, finishedAt }) => [
  ['State', html`<${State} of=${overallStatus} />`],
  ['What it does', TYPES[regulationType] ?? regulationType],
  ['People', subjects],
  ['Sources', sources === null ? 'all' : sources.join(', ')],
  ['Filed', html`<${Time} at=${createdAt} ago=${false} />`],
  ['Over', html`<${Time} at=${finishedAt} ago=${false} />`],
];
