import { html } from '../html.js';
import { KINDS, STATES } from '../lists.js';
import { addressOf, useAddress } from '../router.js';
import { Pages } from '../search.js';
import { Empty, Filters, Head, State, Table, Time } from '../ui.js';

/** @import { Row } from '../api.js' */

export default function Messages() {
  const { query } = useAddress();
  const { userId, messageId, type, event, destination, state, since, until } = query;
  const wanted = { userId, messageId, type, event, destination, state, since, until };
  const options = (/** @type {readonly string[]} */ all) => all.map((each) => /** @type {const} */ ([each, each]));
  return html`<${Head} title="Messages" about="Messages that wait, that could not be delivered, and that were." />
    <${Filters} fields=${[
      { name: 'userId', title: 'User id' },
      { name: 'messageId', title: 'Message id' },
      { name: 'event', title: 'Event' },
      { name: 'destination', title: 'Destination' },
      { name: 'since', title: 'Since', type: 'date' },
      { name: 'until', title: 'Before', type: 'date' },
    ]} choices=${[
      { name: 'state', title: 'State', options: options(STATES) },
      { name: 'type', title: 'Kind', options: options(KINDS) },
    ]} />
    <${Pages} path="/messages" query=${wanted} waiting=${8}
        none=${html`<${Nothing} isSearch=${Object.values(wanted).some(Boolean)} />`}>${(
          /** @type {Row<'/messages'>[]} */ rows,
        ) => html`<${Table} caption="Messages, by state and newest first" columns=${COLUMNS} rows=${rows} />`}<//>`;
}

/** @param {{ isSearch: boolean }} props */
function Nothing({ isSearch }) {
  if (!isSearch) {
    return html`<${Empty} title="No message is known yet.">
      <p>Send one to see its way to each destination. Any client of the Tracking API does so too.</p>
      <pre>curl ${location.origin}/v1/track -u WRITE_KEY: -H 'content-type: application/json' \\
        -d '{"userId": "u1", "event": "Order Completed"}'</pre><//>`;
  }
  return html`<${Empty} title="Nothing like that is known.">
    <p>
      Ids and names are matched letter by letter. Ids of what was delivered are known for <code>attempts.keep</code>
      , bodies and names of events for <code>messages.keep</code>
      .
    </p>
  <//>`;
}

/** @type {import('../ui.js').Column<Row<'/messages'>>[]} */
const COLUMNS = [
  { title: 'When', cell: ({ at }) => html`<${Time} at=${at} ago=${false} />` },
  {
    title: 'Message',
    wide: true,
    cell: ({ id, messageId, type, event, traits, userId }) =>
      html`<a href=${addressOf('/messages/{messageId}', { messageId, delivery: id })}><bdi>${event ?? type}</bdi></a>${
        traits && html` <code>${JSON.stringify(traits).slice(0, 100)}</code>`
      }${userId && html`<small><bdi>${userId}</bdi></small>`}`,
  },
  { title: 'Source', cell: ({ source }) => source },
  { title: 'Destination', cell: ({ destination }) => destination },
  { title: 'State', cell: ({ state }) => html`<${State} of=${state} />` },
];
