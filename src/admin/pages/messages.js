import { Attempts } from './attempts.js';
import { OUTCOMES } from './choices.js';
import { html } from './html.js';
import { useData } from './live.js';
import { addressOf, useAddress } from './router.js';
import { Empty, Filters, Head, Loaded } from './ui.js';

const ROWS = 100;

export function Messages() {
  const { query } = useAddress();
  const { userId, messageId, destination, outcome, since } = query;
  const live = useData(addressOf('/attempts', { userId, messageId, destination, outcome, since, limit: ROWS }));
  return html`<${Head} title="Messages" about="What was sent, to whom, and what came back." />
    <${Filters}
      fields=${[
        { name: 'userId', title: 'User id' },
        { name: 'messageId', title: 'Message id' },
        { name: 'destination', title: 'Destination' },
      ]}
      choices=${[{ name: 'outcome', title: 'Outcome', options: OUTCOMES.map((each) => [each, each.replaceAll('_', ' ')]) }]} />
    <${Loaded} live=${live} rows=${8}>${(/** @type {any} */ { data }) =>
      data.length > 0
        ? html`<${Attempts} attempts=${data} caption="Attempts" of="search" />`
        : html`<${Empty} title=${Object.keys(query).length > 0 ? 'Nothing like that was sent.' : 'Nothing has been sent yet.'}>
            <p>Ids are matched letter by letter. Attempts are kept for <code>attempts.keep</code>.</p><//>`}<//>`;
}
