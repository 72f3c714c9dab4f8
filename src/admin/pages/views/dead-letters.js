import { useState } from 'preact/hooks';
import { post } from '../api.js';
import { count, number } from '../format.js';
import { html } from '../html.js';
import { KINDS, REASONS } from '../lists.js';
import { useData } from '../live.js';
import { addressOf, refine, useAddress } from '../router.js';
import { Pages } from '../search.js';
import { Asks, Empty, Filters, Head, State, Table, Time } from '../ui.js';

/** @typedef {import('../api.js').Row<'/dead-letters'>} Letter */

const FILTERS = ['destination', 'source', 'reason', 'type', 'userId', 'since', 'until'];

/** @param {{ may: string[] }} props */
export default function DeadLetters({ may }) {
  const { query } = useAddress();
  const filter = Object.fromEntries(FILTERS.flatMap((name) => (query[name] ? [[name, query[name]]] : [])));
  return html`<${Head} title="Dead letters"
        about="Messages that could not be delivered. They are kept until they are sent again or dropped." />
    <${Filters} fields=${[
      { name: 'destination', title: 'Destination' },
      { name: 'userId', title: 'User' },
      { name: 'since', title: 'Since', type: 'date' },
      { name: 'until', title: 'Before', type: 'date' },
    ]} choices=${[
      { name: 'reason', title: 'Reason', options: REASONS.map((each) => [each, each.replaceAll('_', ' ')]) },
      { name: 'type', title: 'Kind', options: KINDS.map((each) => [each, each]) },
    ]} />
    <${Pages} path="/dead-letters" query=${filter} topics=${['dead-letters']} waiting=${8}
        none=${html`<${None} isSearch=${Object.keys(filter).length > 0} />`}>${(/** @type {Letter[]} */ rows) =>
          html`<${List} rows=${rows} filter=${filter} may=${may} />`}<//>`;
}

/** @param {{ isSearch: boolean }} props */
const None = ({ isSearch }) =>
  isSearch
    ? html`<${Empty} title="No dead letter is like that.">
      <button type="button" onClick=${() => refine({})}>Show all</button>
    <//>`
    : html`<${Empty} title="There are no dead letters.">
      <p>Everything that was accepted is delivered or on its way.</p>
    <//>`;

/** @param {{ rows: Letter[], filter: Record<string, string>, may: string[] }} props */
function List({ rows, filter, may }) {
  const { data: overview } = useData('/overview', ['overview']);
  const [chosen, setChosen] = useState(/** @type {ReadonlySet<string>} */ (new Set()));
  const filtered = Object.keys(filter).length > 0;
  // Drop chosen letters that no longer exist.
  const ids = rows.map(({ id }) => id).filter((id) => chosen.has(id));
  const scope = ids.length > 0 ? { ids } : filtered ? filter : { all: true };
  const what = ids.length > 0 ? count(ids.length, 'dead letter') : filtered ? 'All that match' : 'All dead letters';
  const replay = async () => {
    const { replayed, superseded, left } = await inParts('/dead-letters/replay', scope, [
      'replayed',
      'superseded',
      'left',
    ]);
    setChosen(new Set());
    return [
      `${count(replayed, 'message')} queued again`,
      ...(superseded > 0 ? [`${number(superseded)} already replaced by newer changes`] : []),
      ...left.map((/** @type {any} */ { reason, letters }) => `${number(letters)} stay: ${reason}`),
    ].join('; ');
  };
  const drop = async () => {
    const { dropped } = await inParts('/dead-letters/drop', scope, ['dropped']);
    setChosen(new Set());
    return `${count(dropped, 'dead letter')} dropped.`;
  };
  return html`${
    may.includes('operate') &&
    html`<div class="toolbar">
      <span>
        ${ids.length > 0 ? `${number(ids.length)} chosen` : filtered ? 'All that match' : overview ? `All ${number(overview.dead)}` : 'All'}
      </span>
      <${Asks} kind="main" run=${replay} title="Send them again?" confirm="Send again" question=${html`<p>
        ${what} ${ids.length === 1 ? 'is' : 'are'} queued again and tried for four hours. Membership changes are
        sent with the value of now.
      </p>`}>
        Replay
      <//>
      <${Asks} kind="danger" run=${drop} title="Give them up?" confirm="Drop for good"
          question=${html`<p>${what} ${ids.length === 1 ? 'is' : 'are'} deleted and will never be delivered.</p>`}>
        Drop
      <//>
    </div>`
  }
    <${Table} caption="Dead letters, newest first" columns=${COLUMNS} rows=${rows}
        chosen=${chosen}
        onChoose=${may.includes('operate') ? setChosen : undefined}
        nameOf=${(/** @type {Letter} */ row) => `${row.type} of ${row.userId ?? 'nobody'} for ${row.destination}`} />`;
}

/**
 * Repeat a request until it has done everything. Each does a part.
 *
 * @param {string} path @param {object} scope @param {string[]} names - fields to add up
 */
async function inParts(path, scope, names) {
  /** @type {any} */
  let sum = null;
  /** @type {string | null | undefined} */
  let cursor;
  do {
    const part = await post(path, { ...scope, ...(cursor ? { cursor } : {}) });
    sum =
      sum === null
        ? part
        : Object.fromEntries(
            names.map((name) => [
              name,
              Array.isArray(part[name]) ? [...sum[name], ...part[name]] : sum[name] + part[name],
            ]),
          );
    cursor = part.next;
  } while (cursor);
  return sum;
}

/** @type {import('../ui.js').Column<Letter>[]} */
const COLUMNS = [
  {
    title: 'Message',
    wide: true,
    cell: ({ id, type, userId, messageId }) =>
      html`<a href=${addressOf('/messages/{messageId}', { messageId, delivery: id })}>${type}</a>
        ${userId ? html`<small><bdi>${userId}</bdi></small>` : null}`,
  },
  {
    title: 'Destination',
    cell: ({ destination, source }) => html`<bdi>${destination}</bdi><small>from ${source}</small>`,
  },
  {
    title: 'Reason',
    cell: ({ reason, status }) =>
      html`<${State} of="dead" label=${reason.replaceAll('_', ' ')} />
        ${status ? html`<small>HTTP ${status}</small>` : null}`,
  },
  { title: 'Attempts', number: true, cell: ({ attempts }) => number(attempts) },
  { title: 'Last', cell: ({ lastAt }) => html`<${Time} at=${lastAt} />` },
];
