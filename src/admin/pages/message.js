import { Attempts } from './attempts.js';
import { html } from './html.js';
import { useData } from './live.js';
import { addressOf } from './router.js';
import { Head, Loaded, Section } from './ui.js';

/** @param {{ id: string }} props */
export function Message({ id }) {
  const live = useData(addressOf('/attempts', { messageId: id, limit: 100 }), ['messages']);
  return html`<${Head} title="Message" up=${['/messages', 'Messages']} about=${html`<code>${id}</code>`} />
    <${Section} title="Attempts">
      <${Loaded} live=${live}>${(/** @type {any} */ { data }) => html`<${Attempts} attempts=${data} />`}<//>
    <//>`;
}
