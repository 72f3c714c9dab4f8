import { number } from '../format.js';
import { html } from '../html.js';
import { EXAMPLES } from '../lists.js';
import { addressOf, refine, useAddress } from '../router.js';
import { Pages, useAll } from '../search.js';
import { Empty, Head, Loaded, Names, Section, State, Table, Time } from '../ui.js';

/** @import { Answer, Row } from '../api.js' */

/** Samples that are shown at first: the same mistake is often made many times. */
const DISCARDED = 100;

export default function Sources() {
  const live = useAll('/sources', ['sources']);
  const { query } = useAddress();
  const { source = '' } = query;
  const sums = useAll('/history/sums?of=source', ['history']);
  const passed = new Map((sums.data?.data ?? []).map((/** @type {Row<'/history/sums'>} */ sum) => [sum.name, sum]));
  const none = html`<${Empty} title="Nothing was discarded.">
    <p>The last discarded messages are shown here, each with its reason.</p>
  <//>`;
  return html`<${Head} title="Sources" about="Where messages come from, and those that were discarded." />
    <${Loaded} live=${live}>${(/** @type {Answer<'/sources'>} */ { data }) =>
      data.length === 0
        ? html`<${Empty} title="No source is configured.">
          <p>Add one to the configuration file, and send its write key with each call.</p>
          <pre>${EXAMPLES.sources}</pre>
        <//>`
        : html`<${Table} caption="Sources" columns=${COLUMNS}
            rows=${data.map((/** @type {Row<'/sources'>} */ row) => ({ ...row, passed: passed.get(row.id) ?? {} }))}
        />`}<//>
    <${Section} title=${source === '' ? 'Discarded messages' : `Discarded messages of ${source}`}
        aside=${source === '' ? null : html`<button type="button" onClick=${() => refine({})}>Of all sources</button>`}>
      <${Pages} path="/discards" query=${{ source }} enough=${DISCARDED} topics=${['sources']} none=${none}>${(
        /** @type {Row<'/discards'>[]} */ rows,
      ) =>
        html`<${Table} caption="Samples of discarded messages, newest first" columns=${DISCARDS} rows=${folded(rows)}
            keyOf=${keyOf} />`}<//>
    <//>`;
}

/** @param {Row<'/discards'>} discard */
const keyOf = ({ source, code, message }) => `${source} ${code} ${message}`;

/** Show only the last discard of each mistake, since one is often made many times. @param {Row<'/discards'>[]} discards - newest first */
function folded(discards) {
  return [...Map.groupBy(discards, keyOf).values()].map((alike) => ({ ...alike[0], times: alike.length }));
}

/** @type {import('../ui.js').Column[]} */
const COLUMNS = [
  { title: 'Source', cell: ({ id }) => html`<a href=${addressOf('/sources', { source: id })}>${id}</a>` },
  {
    title: 'State',
    cell: ({ enabled }) =>
      html`<${State} of=${enabled ? 'open' : 'disabled'} label=${enabled ? 'enabled' : 'disabled'} />`,
  },
  {
    title: 'Accepted in a day',
    number: true,
    by: ({ passed }) => passed.accepted ?? 0,
    cell: ({ passed }) => number(passed.accepted ?? 0),
  },
  {
    title: 'Not taken',
    number: true,
    by: ({ passed }) => passed.discarded ?? 0,
    cell: ({ passed }) =>
      html`<span class=${passed.discarded > 0 ? 'warn-text' : ''}>${number(passed.discarded ?? 0)}</span>`,
  },
  {
    title: 'Goes to',
    wide: true,
    cell: ({ destinations }) =>
      destinations.length === 0
        ? html`<span class="warn-text">no destination</span>`
        : html`<${Names} names=${destinations} />`,
  },
];

/** @type {import('../ui.js').Column[]} */
const DISCARDS = [
  { title: 'When', cell: ({ at }) => html`<${Time} at=${at} />` },
  { title: 'Source', cell: ({ source }) => source },
  { title: 'Why', wide: true, cell: ({ code }) => html`<code>${code}</code>` },
  { title: 'Times', number: true, cell: ({ times }) => number(times) },
  { title: 'It begins', wide: true, cell: ({ message }) => html`<code>${message}</code>` },
];
