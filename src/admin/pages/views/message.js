import { post } from '../api.js';
import { Attempts } from '../attempts.js';
import { html } from '../html.js';
import { useData } from '../live.js';
import { addressOf, useAddress } from '../router.js';
import { Rest, useRows } from '../search.js';
import { Action, Empty, Facts, Head, Section, State, Table, Time } from '../ui.js';

/** @typedef {import('../api.js').Row<'/attempts'>} Attempt */
/** @typedef {import('../api.js').Row<'/messages'>} Delivery */

/** Enough for a message: it has a few destinations with a few endpoints each. */
const ATTEMPTS = 100;

/** One message: its destinations, its requests, and its body if that is kept. @param {{ id: string, may: string[] }} props */
export default function Message({ id, may }) {
  const { delivery } = useAddress().query;
  const topics = ['messages'];
  const log = useRows('/attempts', { messageId: id }, ATTEMPTS, topics);
  const { rows, busy, reload } = useRows('/messages', { messageId: id }, ATTEMPTS, topics);
  // Fetch the message by its own id, since it may be too old for the list.
  const wanted = delivery ?? rows?.find(({ kept }) => kept)?.id;
  const one = useData(wanted ? addressOf('/messages/{id}', { id: wanted }) : null, topics);
  const body = one.error ? null : one.data;
  const others = (rows ?? []).filter((row) => row.id !== body?.id);
  const deliveries = body ? [body, ...others] : others;
  const attempts = merged(log.rows ?? [], body?.attempts ?? []);
  const about = body ?? rows?.[0] ?? attempts[0];
  return html`<${Head} title="Message" up=${['/messages', 'Messages']} about=${html`<code>${id}</code>`} />
    ${about && html`<${About} message=${about} />`}
    ${deliveries.length > 0 && html`<${Deliveries} rows=${deliveries} may=${may} onDone=${reload} />`}
    <${Section} title="Attempts">
      ${attempts.length > 0 && html`<${Attempts} attempts=${attempts} />`}
      <${Rest} list=${log} found=${attempts.length} none="No attempt is logged." /><//>
    <${Section} title="Request">${
      body
        ? html`<${Facts} items=${[['Idempotency-Key', html`<code>${body.id}</code>`]]} />
          <pre tabindex="0">${JSON.stringify(body.body, null, 2)}</pre>`
        : rows !== null &&
          !busy &&
          html`<${Empty} title="Its body is not kept.">
            <p><code>messages.keep</code> in the configuration says how long bodies of delivered messages are.</p>
          <//>`
    }<//>`;
}

/** @param {Attempt[]} some @param {Attempt[]} others */
function merged(some, others) {
  const keyOf = (/** @type {Attempt} */ { delivery, endpoint, at }) => `${delivery} ${endpoint} ${at}`;
  const all = new Map([...some, ...others].map((attempt) => [keyOf(attempt), attempt]));
  return [...all.values()].sort((a, b) => (a.at < b.at ? 1 : -1));
}

/** @param {{ message: { type: string, event?: string | null, source: string, userId: string | null } }} props */
function About({ message: { type, event, source, userId } }) {
  const user = userId && html`<a href=${addressOf('/messages', { userId })}><bdi>${userId}</bdi></a>`;
  const items = [
    ['Kind', type],
    ...(event ? [['Event', event]] : []),
    ['Source', html`<a href=${addressOf('/sources', { source })}>${source}</a>`],
    ['User', user ?? '–'],
  ];
  return html`<${Facts} items=${items} />`;
}

/** A table of the destinations of a message. @param {{ rows: Delivery[], may: string[], onDone: () => void }} props */
function Deliveries({ rows, may, onDone }) {
  /** @param {Delivery} row */
  const resend =
    ({ id, destination }) =>
    async () => {
      const { resent } = await post('/messages/resend', { ids: [id] });
      onDone();
      return resent === 1 ? `Queued again for ${destination}.` : `${destination} has a newer change already.`;
    };
  /** @type {import('../ui.js').Column<Delivery>[]} */
  const columns = [
    { title: 'Destination', wide: true, cell: ({ destination }) => destination },
    { title: 'State', cell: ({ state }) => html`<${State} of=${state} />` },
    { title: 'When', cell: ({ at }) => html`<${Time} at=${at} ago=${false} />` },
    {
      title: 'Again',
      cell: (row) =>
        may.includes('operate') && row.kept && row.state !== 'waiting'
          ? html`<${Action} run=${resend(row)}>
            Send again
            <span class="unseen"> to <bdi>${row.destination}</bdi></span>
          <//>`
          : '–',
    },
  ];
  return html`<${Section} title="Destinations">
    <${Table} caption="Where it went" columns=${columns} rows=${rows} />
  <//>`;
}
