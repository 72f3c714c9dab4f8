import { post } from './api.js';
import { Attempts } from './attempts.js';
import { html } from './html.js';
import { refreshAll, useData } from './live.js';
import { addressOf } from './router.js';
import { Action, Facts, Head, Loaded, Section, Time } from './ui.js';

/** A message goes to a few destinations, each of which has a few endpoints. */
const ATTEMPTS = 100;

/** One message: every request that was made for it, and its body where it could not be delivered. @param {{ id: string, may: string[] }} props */
export function Message({ id, may }) {
  const live = useData(addressOf('/attempts', { messageId: id, limit: ATTEMPTS }), ['messages']);
  return html`<${Head} title="Message" up=${['/messages', 'Messages']} about=${html`<code>${id}</code>`} />
    <${Loaded} live=${live}>${(/** @type {any} */ { data }) => html`
      ${data.length > 0 && html`<${About} message=${data[0]} />`}
      <${Section} title="Attempts"><${Attempts} attempts=${data} /><//>
      ${failed(data).map((attempt) => html`<${Letter} key=${attempt.delivery} attempt=${attempt} may=${may} />`)}`}<//>`;
}

/** @param {{ message: any }} props */
function About({ message: { type, source, userId } }) {
  const user = userId && html`<a href=${addressOf('/messages', { userId })}>${userId}</a>`;
  const items = [
    ['Kind', type],
    ['Source', html`<a href=${addressOf('/sources', { source })}>${source}</a>`],
    ['User', user ?? '–'],
  ];
  return html`<${Facts} items=${items} />`;
}

/** The last attempt of each delivery that nobody has taken. @param {any[]} attempts - newest first @returns {any[]} */
function failed(attempts) {
  const taken = new Set(attempts.filter(({ outcome }) => outcome === 'success').map(({ delivery }) => delivery));
  const last = new Map(attempts.toReversed().map((attempt) => [attempt.delivery, attempt]));
  return [...last.values()].filter(({ delivery }) => !taken.has(delivery));
}

/** What became a dead letter has its body still. @param {{ attempt: any, may: string[] }} props */
function Letter({ attempt: { delivery, destination, userId, type }, may }) {
  const topics = ['dead-letters'];
  const list = useData(addressOf('/dead-letters', { destination, userId, type, limit: ATTEMPTS }), topics);
  const letter = list.data?.data.find((/** @type {any} */ { id }) => id === delivery);
  const live = useData(letter ? `/dead-letters/${encodeURIComponent(delivery)}` : null);
  if (!letter) return null;
  const replay = async () => {
    const { replayed } = await post('/dead-letters/replay', { ids: [delivery] });
    refreshAll();
    return replayed === 1
      ? `Queued again for ${destination}.`
      : `${destination} has a newer change already, or can’t take it.`;
  };
  const aside = may.includes('operate') && html`<${Action} run=${replay}>Send again<//>`;
  return html`<${Section} title=${`Dead letter for ${destination}`} aside=${aside}>
    <p>${letter.reason.replaceAll('_', ' ')}, last tried <${Time} at=${letter.lastAt} ago=${false} /></p>
    <${Loaded} live=${live}>${(/** @type {any} */ { body }) => html`<pre tabindex="0">${JSON.stringify(body, null, 2)}</pre>`}<//>
  <//>`;
}
