import { Attempts, answerText } from '../attempts.js';
import { count, number } from '../format.js';
import { html } from '../html.js';
import { useData } from '../live.js';
import { addressOf, refine, useAddress } from '../router.js';
import { Empty, Folded, Head, Loaded, Section, State, Table, Time } from '../ui.js';
import { audienceAddress } from './audiences.js';
import { runAddress } from './run.js';
import { Evidence } from './try.js';

/** @typedef {import('../api.js').Answer<'/audiences/{key}/why'>} Story */
/** @typedef {Story['changes'][number]} Change */

/** @type {Record<string, string>} */
const MARKS = { entered: 'in', left: 'out' };

/** One person in one audience: each change, with its deliveries. @param {{ name: string, user: string }} props */
export default function Story({ name, user }) {
  const { query } = useAddress();
  const { at } = query;
  const live = useData(addressOf('/audiences/{key}/why', { key: name, user, at }), ['runs', 'messages']);
  return html`<${Head} title=${`${user} in ${name}`} up=${[audienceAddress(name), name]}
        name=${html`<bdi>${user}</bdi> <span class="soft">in <bdi>${name}</bdi></span>`}
        about=${live.data && html`<${Standing} story=${live.data} />`}>
      <a class="button" href=${addressOf('/messages', { userId: user })}>Messages of <bdi>${user}</bdi></a>
    <//>
    <${Loaded} live=${live} rows=${6}>${(/** @type {Story} */ story) => html`<${AsOf} at=${at} />
      <${Section} title="What happened">${
        story.changes.length === 0
          ? html`<${Empty} title=${`${user} was never in ${name}.`}>
            <p>As far as is known: changes are kept as long as runs are. An id is matched letter by letter.</p><//>`
          : html`<ol class="story">
            ${story.changes.toReversed().map((change, index) => html`<${Change} key=${`${change.run} ${index}`} name=${name} user=${user} change=${change} />`)}
          </ol>`
      }<//>
      ${
        story.conditions.length > 0 &&
        html`<${Section} title="Conditions">
          <${Table} caption="Conditions" columns=${CONDITIONS} rows=${story.conditions}
              keyOf=${(/** @type {Condition} */ { path }) => path} />
        <//>`
      }
      ${
        story.unfinished.length > 0 &&
        html`<p class="soft">
          Runs that are not done may change it: ${story.unfinished.map((run) => html`<a key=${run.run} href=${runAddress(run)}>${run.run}</a> `)}
        </p>`
      }
      <${Section} title="Requests about it">${
        story.attempts.length === 0
          ? html`<${Empty} title="No attempt is logged." />`
          : html`<${Attempts} attempts=${story.attempts.toReversed()} />`
      }<//>`}<//>`;
}

/** @typedef {Story['conditions'][number]} Condition */

/** @type {import('../ui.js').Column[]} */
const CONDITIONS = [
  {
    title: 'Condition',
    wide: true,
    cell: ({ says, condition, path }) => html`<bdi>${says ?? condition}</bdi><small>${path}</small>`,
  },
  {
    title: 'Holds',
    cell: ({ passes }) => html`<${State} of=${passes ? 'ok' : 'failed'} label=${passes ? 'yes' : 'no'} />`,
  },
  { title: 'Known', cell: (each) => html`<${Evidence} ...${each} />` },
];

/** Chooses a time in the past. @param {{ at: string | undefined }} props */
export function AsOf({ at }) {
  return html`<div class="filters">
    <label>
      As it was at
      <input type="datetime-local" value=${at ? localTime(at) : ''}
          onChange=${(/** @type {any} */ event) => refine({ at: event.target.value ? new Date(event.target.value).toISOString() : undefined })} />
    </label>
    ${at ? html`<button type="button" onClick=${() => refine({})}>Now</button>` : null}
  </div>`;
}

/** @param {{ story: Story }} props */
function Standing({ story: { member, value, since, asOf, absence } }) {
  const standing =
    member === null
      ? 'Nobody knows any more'
      : member
        ? `${asOf ? 'Was' : 'Is'} a member`
        : `${asOf ? 'Was' : 'Is'} not a member`;
  return html`<span class=${`state ${member ? 'good' : 'quiet'}`}>${standing}</span>
    ${absence && html`<span>${absenceText(absence)}</span>`}
    ${value === null ? null : html`<code>${JSON.stringify(value)}</code>`}
    ${since && html`<span>${asOf ? 'was so' : ''} since <${Time} at=${since.startedAt} ago=${false} /></span>`}`;
}

/** @param {NonNullable<Story['absence']>} absence */
function absenceText({ reason, user, failing }) {
  if (reason === 'unknown') return 'the event log has nothing of this id';
  if (reason === 'former') return `a former id of ${user}`;
  return failing.length === 0 ? 'the next sync adds the user' : `does not hold: ${failing.join(', ')}`;
}

/** @param {{ name: string, user: string, change: Change }} props */
export function Change({ name, user, change: { change, reason, at, run, action, cause, event, value, told } }) {
  return html`<li class=${MARKS[change] ?? ''}>
    <p>
      <strong>${change}</strong>
      ${reason && reason !== (change === 'left' ? 'exited' : change) ? ` (${reason.replaceAll('_', ' ')})` : ''} ${at ? html`<${Time} at=${at} ago=${false} />` : 'at a time that is no longer known'}
      ${cause || !run ? html`<${Cause} cause=${cause} event=${event} at=${at} />` : null}
      ${run ? html` · <a href=${runAddress({ key: name, run })}>${action === 'sync' ? 'run' : action}</a>` : null}
    </p>
    ${value === null ? null : html`<p><code>${JSON.stringify(value)}</code></p>`}
    <${Folded} length=${told.length}
        sum=${`${number(told.filter((each) => each.reached).length)} of ${count(told.length, 'destination')} were told`}>
      <ul class="told">${told.map((each) => html`<${Told} key=${each.destination} told=${each} user=${user} />`)}</ul>
    <//>
  </li>`;
}

/** The cause of a live change. @param {Pick<Change, 'cause' | 'event' | 'at'>} props */
function Cause({ cause, event, at }) {
  if (event)
    return html` · by <a href=${addressOf('/messages/{messageId}', { messageId: event.messageId })}>
      <bdi>${event.event ?? event.type}</bdi>
    </a>`;
  if (cause === null) return at === null ? null : ' · by a rebuild';
  if ('audience' in cause) return html` · by the sync of ${cause.audience}`;
  if ('computed' in cause) return html` · by the sync of ${cause.computed}`;
  return 'deletion' in cause ? ' · by a deletion' : ' · by time alone';
}

/** @param {{ told: Change['told'][number], user: string }} props */
function Told({ told: { destination, reached, attempt, deadLetter }, user }) {
  const [state, label] = reached
    ? ['delivered', ' was told']
    : deadLetter
      ? ['dead', `: dead letter, ${deadLetter.reason.replaceAll('_', ' ')}`]
      : [attempt?.outcome ?? 'skipped', ' was not told yet'];
  return html`<li>
    <${State} of=${state}
        label=${html`<span><bdi>${destination}</bdi>${attempt || deadLetter ? label : ': no request is logged'}</span>`} />
    <span class="soft"> ${
      attempt
        ? html`<a href=${addressOf('/messages/{messageId}', { messageId: attempt.messageId })}>
          ${answerText(attempt)}
        </a> <${Time} at=${attempt.at} ago=${false} />`
        : !deadLetter &&
          html`It waits, or was sent before the log begins. <a href=${addressOf('/messages', { userId: user, destination, state: 'waiting' })}>
            Look
          </a>`
    }
    </span>
  </li>`;
}

/** @param {string} iso */
function localTime(iso) {
  const time = new Date(iso);
  return new Date(+time - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
