import { duration } from './format.js';
import { html } from './html.js';
import { addressOf } from './router.js';
import { State, Table, Time } from './ui.js';

/** @typedef {import('./api.js').Row<'/attempts'>} Attempt */

/**
 * A table of attempts and their answers.
 *
 * @param {{ attempts: readonly Attempt[], caption?: string, of?: 'endpoint' | 'message' | 'search' }} props - `of`: the thing they have in
 *   common, which is not repeated in each row
 */
export function Attempts({ attempts, caption = 'Attempts, last logged first', of = 'message' }) {
  const columns = [
    WHEN,
    ...(of === 'message' ? [] : [MESSAGE]),
    ...(of === 'endpoint' ? [] : [DESTINATION]),
    ...[OUTCOME, ANSWER, TOOK],
  ];
  const keyOf = (/** @type {Attempt} */ row) => `${row.delivery} ${row.endpoint} ${row.at}`;
  return html`<${Table} caption=${caption} rows=${attempts} columns=${columns} keyOf=${keyOf} />`;
}

/**
 * The status of an attempt, and its error if the status does not say it.
 *
 * @param {{ status: number | null, error: string | null }} attempt
 */
export function answerText({ status, error }) {
  return [status, error === `status_${status}` ? null : error].filter((part) => part !== null).join(' ');
}

/** @typedef {import('./ui.js').Column<Attempt>} Column */

/** @type {Column} */
const WHEN = { title: 'When', cell: ({ at }) => html`<${Time} at=${at} ago=${false} />` };

/** @type {Column} */
const MESSAGE = {
  title: 'Message',
  wide: true,
  cell: ({ delivery, type, userId, messageId }) =>
    html`<a href=${addressOf('/messages/{messageId}', { messageId, delivery })}>${type}</a>
      ${userId && html`<small><bdi>${userId}</bdi></small>`}`,
};

/** @type {Column} */
const DESTINATION = {
  title: 'Destination',
  cell: ({ destination, endpoint }) =>
    html`<a href=${addressOf('/endpoints/{endpoint}', { endpoint })}><bdi>${destination}</bdi></a>`,
};

/** @type {Column} */
const OUTCOME = { title: 'Outcome', cell: ({ outcome }) => html`<${State} of=${outcome} />` };

/** @type {Column} */
const ANSWER = {
  title: 'Answer',
  wide: true,
  cell: ({ status, error, response }) =>
    html`${answerText({ status, error }) || '–'}${
      response && html`<small><code>${response.slice(0, 300)}</code></small>`
    }`,
};

/** @type {Column} */
const TOOK = {
  title: 'Took',
  number: true,
  cell: ({ ms, outcome }) => (outcome === 'skipped' ? '–' : duration(ms)),
};
