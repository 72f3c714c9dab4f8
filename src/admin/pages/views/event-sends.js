import { useState } from 'preact/hooks';
import { get, post } from '../api.js';
import { count, number, percent } from '../format.js';
import { html } from '../html.js';
import { KINDS } from '../lists.js';
import { addressOf } from '../router.js';
import { Pages, useAll } from '../search.js';
import { Action, Asks, Empty, Head, Section, State, Table, Time } from '../ui.js';

/** @import { Row } from '../api.js' */

/** Sends of past events: their progress, and a form for a new one. @param {{ may: string[] }} props */
export default function EventSends({ may }) {
  const operates = may.includes('operate');
  const none = html`<${Empty} title="No past events were sent.">
    <p><code>rollcall events send</code> does it, too.</p>
  <//>`;
  return html`<${Head} title="Past events" up=${['/events', 'Events']}
        about="Events of the log, sent to a destination as if it had been connected when they came." />
    ${operates && html`<${Section} title="Send past events"><${Form} /><//>`}
    <${Section} title="Sends">
      <${Pages} path="/event-log/sends" topics=${['sends', 'messages']} none=${none}>${(
        /** @type {Row<'/event-log/sends'>[]} */ rows,
      ) =>
        html`<${Table} caption="Sends of past events, newest first" columns=${columnsFor(operates)} rows=${rows} />`}<//>
    <//>`;
}

/** Fields without a value are not sent. @param {Record<string, string>} order */
const given = (order) => Object.fromEntries(Object.entries(order).filter(([, value]) => value !== ''));

function Form() {
  const { data } = useAll('/destinations', ['destinations']);
  const [order, setOrder] = useState(/** @type {Record<string, string>} */ ({}));
  const [events, setEvents] = useState(/** @type {number | null} */ (null));
  /** @param {any} event */
  const changed = ({ target: { name, value } }) => {
    setOrder({ ...order, [name]: value });
    setEvents(null);
  };
  const isComplete = Boolean(order['destination'] && order['since']);
  const ask = async () => setEvents((await get(addressOf('/event-log/count', given(order)))).events);
  const send = async () => {
    const { total } = await post('/event-log/sends', given(order));
    setEvents(null);
    return `${count(total, 'event')} will be sent.`;
  };
  const names = (data?.data ?? []).map(({ destination }) => destination);
  return html`<div class="filters">
      <label>
        Destination
        <select name="destination" onChange=${changed}>
          <option value=""></option>
          ${names.map((/** @type {string} */ name) => html`<option key=${name} value=${name}>${name}</option>`)}
        </select>
      </label>
      <label>Received since<input type="date" name="since" onInput=${changed} /></label>
      <label>Until<input type="date" name="until" onInput=${changed} /></label>
      <label>
        Kind
        <select name="type" onChange=${changed}>
          <option value="">All</option>
          ${KINDS.filter((kind) => kind !== 'delete').map(
            (kind) => html`<option key=${kind} value=${kind}>
              ${kind}
            </option>`,
          )}
        </select>
      </label>
      <label>Event<input type="text" name="event" autocomplete="off" onInput=${changed} /></label>
      <label>Source<input type="text" name="source" autocomplete="off" onInput=${changed} /></label>
    </div>
    <div class="toolbar">
      <${Action} run=${ask} disabled=${!isComplete}>Count<//>
      <${Asks} kind="main" run=${send} disabled=${!events} title="Send past events?" confirm="Send"
          question=${html`<p>
            ${count(events ?? 0, 'event')} are sent to ${order['destination']}, behind live messages.
          </p>`}>
        Send
      <//>
      <span role="status">${events === null ? '' : `${count(events, 'event')} to send.`}</span>
    </div>`;
}

/** @param {boolean} operates @returns {import('../ui.js').Column<Row<'/event-log/sends'>>[]} */
const columnsFor = (operates) => [
  {
    title: 'Ordered',
    cell: ({ startedAt, id }) => html`<${Time} at=${startedAt} ago=${false} /><small><code>${id}</code></small>`,
  },
  {
    title: 'What',
    wide: true,
    cell: ({ destination, since, until, type, event, source }) =>
      html`to <bdi>${destination}</bdi>
        <small>
          received from <${Time} at=${since} ago=${false} /> to <${Time} at=${until} ago=${false} />
          ${[source, event ?? type].filter(Boolean).map((each) => `, ${each}`)}
        </small>`,
  },
  {
    title: 'State',
    cell: ({ state, waitsFor }) => html`<${State} of=${state} />${waitsFor && html`<small>${waitsFor}</small>`}`,
  },
  {
    title: 'Queued',
    number: true,
    cell: ({ sent, total }) =>
      html`${number(sent)} of ${number(total)}<small>${total > 0 && percent(Math.min(1, sent / total))}</small>`,
  },
  {
    title: 'Delivered',
    number: true,
    cell: ({ deliveries: { delivered, dead } }) =>
      html`${number(delivered)}${dead > 0 && html`<small class="warn-text">${count(dead, 'dead letter')}</small>`}`,
  },
  ...(operates ? [{ title: 'Action', cell: Cancel }] : []),
];

/** @param {{ id: string, state: string }} send */
function Cancel({ id, state }) {
  if (state !== 'sending') return '–';
  const cancel = async () => {
    await post(addressOf('/event-log/sends/{send}/cancel', { send: id }));
    return 'Cancelled. What is queued is still delivered.';
  };
  return html`<${Asks} kind="danger" run=${cancel} title="Cancel the send?" confirm="Cancel it"
      question=${html`<p>Nothing more is queued. What is queued already is still delivered.</p>`}>
    Cancel
  <//>`;
}
