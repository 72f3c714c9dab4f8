import { useState } from 'preact/hooks';
import { post } from '../api.js';
import { bytes, count, number } from '../format.js';
import { html } from '../html.js';
import { useData } from '../live.js';
import { Action, Empty, Figures, Head, Loaded } from '../ui.js';

/** @import { Answer } from '../api.js' */

/** The event log: its size and time span, and a check of its files. @param {{ may: string[] }} props */
export default function Events({ may }) {
  const live = useData('/event-log', ['sources']);
  const [verified, setVerified] = useState(/** @type {Answer<'/event-log/verify', 'POST'> | null} */ (null));
  const verify = async () => setVerified(await post('/event-log/verify'));
  const hasFiles = (live.data?.files ?? 0) > 0 && may.includes('operate');
  return html`<${Head} title="Events"
        about=${html`<p>
          Events of people, kept so that audiences can be computed from
          them, and <a href="/events/sends">sent to a destination</a> later.
        </p>`}>
      ${hasFiles && html`<${Action} run=${verify}>Verify every file<//>`}
    <//>
    ${verified && html`<${Verified} ...${verified} />`}
    <${Loaded} live=${live}>${(/** @type {Answer<'/event-log'>} */ log) =>
      log.kept
        ? html`<${Figures} items=${figuresOf(log)} />`
        : html`<${Empty} title="No event log is kept.">
          <p>
            With <code>eventLog</code> in the configuration, what is collected is kept, and the SQL of audiences reads
            it.
          </p>
          <pre>eventLog: { keep: 400d }</pre>
        <//>`}<//>`;
}

/** @param {string | null} from @param {string | null} to */
function receivedWhen(from, to) {
  if (from === null) return 'none is sealed yet';
  return from === to ? `received on ${from}` : `received from ${from} to ${to}`;
}

/** @param {Answer<'/event-log'>} log */
const figuresOf = ({ events, bytes: size, from, to, files, unsealed }) => [
  { title: 'Events', value: number(events), note: receivedWhen(from, to) },
  { title: 'Size', value: bytes(size), note: files === null ? 'in Postgres' : `in ${count(files, 'file')}` },
  ...(unsealed === null ? [] : [{ title: 'Not sealed yet', value: number(unsealed), note: 'in the store' }]),
];

/** @param {{ files: number, faults: { file: string, fault: string }[] }} props */
function Verified({ files, faults }) {
  return html`<div class=${`panel ${faults.length > 0 ? 'bad' : 'good'}`} role="status">
    <p>
      <strong>
        ${faults.length === 0 ? `${files === 1 ? 'The file is' : `All ${number(files)} files are`} whole.` : `${count(faults.length, 'file')} of ${number(files)} can’t be read as they were written.`}
      </strong>
    </p>
    ${
      faults.length > 0 &&
      html`<ul>${faults.map(({ file, fault }) => html`<li key=${file}><code>${file}</code>: ${fault}</li>`)}</ul>
        <p>Restore these files from a backup: <code>rollcall events --verify</code> says so, too.</p>`
    }
  </div>`;
}
