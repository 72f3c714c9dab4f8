import { useState } from 'preact/hooks';
import { post } from '../api.js';
import { Attempts, answerText } from '../attempts.js';
import { count, duration, notesOf, number, percent } from '../format.js';
import { html } from '../html.js';
import { OUTCOMES } from '../lists.js';
import { useData } from '../live.js';
import { addressOf, refine, useAddress } from '../router.js';
import { Pages, useAll } from '../search.js';
import { Standings } from '../standings.js';
import { Answers } from '../trends.js';
import { Action, Asks, Facts, Figures, Head, Loaded, Names, Panel, Section, State, Time } from '../ui.js';
import { attemptsOf, ENOUGH, endpointAddress, shareOf } from './endpoints.js';

/** @import { Answer, Row } from '../api.js' */
/** @typedef {Answer<'/destinations/{destination}/test', 'POST'>['data']} Tested */

const ATTEMPTS = 25;
const ADVICE = {
  dead: 'It gets one probe at a time. Everything waits, up to four hours from its first attempt. Once it takes one, what waits is sent.',
  refusing:
    'It refused each of its last requests, so its address, certificate, secret or access is probably wrong. What it refused is sent again automatically once it accepts a message.',
  paused: 'Nothing is posted to it until somebody resumes it. It was paused by a person, or answered 410 Gone.',
  disabled: 'It is switched off in the configuration. What was waiting goes on waiting.',
};

/** @param {{ id: string, may: string[] }} props */
export default function Endpoint({ id, may }) {
  const live = useData(endpointAddress({ endpoint: id }), ['endpoints', 'messages']);
  return html`<${Heading} id=${id} endpoint=${live.data} may=${may} />
    <${Loaded} live=${live} rows=${6}>${(/** @type {Answer<'/endpoints/{endpoint}'>} */ endpoint) => html`${
      endpoint.state in ADVICE &&
      html`<div class=${`panel ${endpoint.state === 'disabled' ? '' : 'bad'}`}>
        <p>
          <strong>
            ${endpoint.state.charAt(0).toUpperCase()}
            ${endpoint.state.slice(1)}
            ${endpoint.since ? html` since <${Time} at=${endpoint.since} ago=${false} />` : null}.
          </strong> ${ADVICE[/** @type {'dead'} */ (endpoint.state)]}
        </p>
        ${endpoint.cause && html`<pre>${endpoint.cause} ${endpoint.answer}</pre>`}
      </div>`
    }
      <${Figures} items=${[
        { title: 'Waiting', value: number(endpoint.pending), note: 'for the destination' },
        {
          title: 'Dead letters',
          value: number(endpoint.dead),
          tone: endpoint.dead > 0 ? 'bad' : undefined,
          note:
            endpoint.dead > 0
              ? html`<a href=${addressOf('/dead-letters', { destination: endpoint.destination })}>look at them</a>`
              : '',
        },
        ...(endpoint.window === null
          ? []
          : [
              {
                title: 'Window',
                value: number(endpoint.window.size),
                note: `requests at once; ${number(endpoint.window.inFlight)} in flight`,
              },
            ]),
      ]} />
      <${Flow} id=${id} />
      <${Answers} id=${id} />
      <${Log} id=${id} />
      <${Destination} name=${endpoint.destination} />`}<//>`;
}

/** @param {{ id: string, endpoint: Answer<'/endpoints/{endpoint}'> | null, may: string[] }} props - `endpoint`: null until it is known */
function Heading({ id, endpoint, may }) {
  const { destination = 'Endpoint', url = '', state = '' } = endpoint ?? {};
  const [results, setResults] = useState(/** @type {Tested | null} */ (null));
  const path = endpointAddress({ endpoint: id });
  const test = async () => {
    const { data } = await post(addressOf('/destinations/{destination}/test', { destination }));
    setResults(data);
  };
  const resume = async () => {
    await post(`${path}/resume`);
    return `${destination} is posted to again within seconds.`;
  };
  const pause = async () => {
    await post(`${path}/pause`);
    return `Nothing more is posted to this endpoint of ${destination}.`;
  };
  return html`<${Head} title=${destination} up=${['/endpoints', 'Endpoints']}
        about=${endpoint && html`<${State} of=${state} /><code>${url}</code>`}>${
          endpoint !== null &&
          may.includes('operate') &&
          html`<${Action} kind="main" run=${test}>Send a test event<//>
            ${
              ['dead', 'refusing', 'paused'].includes(state) &&
              html`<${Action} run=${resume}>
                ${state === 'paused' ? 'Resume' : 'Try again'}
              <//>`
            }
            ${
              state !== 'paused' &&
              state !== 'disabled' &&
              html`<${Asks} run=${pause} title="Pause this endpoint?" confirm="Pause"
                  question=${html`<p>
                    Nothing is posted to <code>${url}</code> until somebody resumes it. Messages wait, up to four hours
                    from their first attempt.
                  </p>`}>
                Pause
              <//>`
            }`
        }<//>
    ${results && html`<${Results} results=${results} onClose=${() => setResults(null)} />`}`;
}

/** @param {{ results: Tested, onClose: () => void }} props */
function Results({ results, onClose }) {
  return html`<${Panel} label="Test event" title="Test event" role="status" onClose=${onClose}>
    ${results.map(
      ({ endpoint, url, outcome, status, error, ms, response, advice, signatures }) => html`<div key=${endpoint}>
        <p>
          <${State} of=${outcome} /> <code>${url}</code> ${answerText({ status, error })} in ${duration(ms)}
          ${signatures.length > 0 ? `, signed by ${signatures.join(', ')}` : ', not signed'}
        </p>
        ${advice && html`<p>${advice}</p>`}
        ${response && html`<pre>${response}</pre>`}
      </div>`,
    )}
  <//>`;
}

/** The answers of an endpoint in the last day. @param {{ id: string }} props */
function Flow({ id }) {
  const live = useAll(addressOf('/history/sums', { of: 'endpoint', name: id }), ['history']);
  return html`<${Section} title="In the last day"><${Loaded} live=${live} rows=${3}>${(
    /** @type {Answer<'/history/sums'>} */ { data: [sum] },
  ) => {
    const { retried, refused, p50Ms, p95Ms, p99Ms } = sum ?? {};
    const [all, share] = [attemptsOf(sum), shareOf(sum)];
    if (share === null) return html`<p class="soft">Nothing was posted to it.</p>`;
    const failed = `${number(retried ?? 0)} failed, ${number(refused ?? 0)} refused`;
    return html`<${Figures} items=${[
      {
        title: 'Taken',
        value: percent(share),
        note: `of ${count(all, 'attempt')}`,
        tone: share < ENOUGH ? 'bad' : undefined,
      },
      { title: 'Not taken', value: number((retried ?? 0) + (refused ?? 0)), note: failed },
      ...(p50Ms == null
        ? []
        : [
            {
              title: 'Answers within',
              value: duration(p50Ms),
              note: `half of them; 95 % in ${duration(p95Ms)}, 99 % in ${duration(p99Ms)}`,
            },
          ]),
    ]} />`;
  }}<//><//>`;
}

/** @param {{ id: string }} props */
function Log({ id }) {
  const { query } = useAddress();
  const { outcome = '' } = query;
  const choose = html`<label class="inline">
    Show <select value=${outcome}
        onChange=${(/** @type {any} */ event) => refine({ ...query, outcome: event.target.value })}>
      <option value="">all outcomes</option>
      ${OUTCOMES.map((each) => html`<option key=${each} value=${each}>${each.replaceAll('_', ' ')}</option>`)}
    </select>
  </label>`;
  return html`<${Section} title="Last attempts" aside=${choose}>
    <${Pages} path="/attempts" query=${{ endpoint: id, outcome }} enough=${ATTEMPTS} topics=${['messages']}
        none="No attempt is logged.">${(/** @type {Row<'/attempts'>[]} */ rows) =>
          html`<${Attempts} attempts=${rows} of="endpoint" />`}<//>
  <//>`;
}

/** @param {{ name: string }} props */
function Destination({ name }) {
  const live = useData(addressOf('/destinations/{destination}', { destination: name }), ['runs', 'destinations']);
  /** @param {string[] | null} list */
  const all = (list) => (list === null ? 'all' : list.length === 0 ? 'none' : html`<${Names} names=${list} />`);
  return html`<${Section} title="Destination"><${Loaded} live=${live}>${(
    /** @type {Answer<'/destinations/{destination}'>} */ { definition, processes, audiences, ...about },
  ) =>
    definition &&
    html`<${Standings} standings=${audiences} of="destination" /><${Facts} items=${[
      ...notesOf(about),
      [
        'Sources',
        definition.sources.length === 0
          ? html`<span class="warn-text">none: nothing is sent to it</span>`
          : html`<${Names} names=${definition.sources} />`,
      ],
      ['Kinds', all(definition.types)],
      ['Track events', all(definition.events)],
      ['Audiences', all(definition.audiences)],
      ['Delivered once', definition.require === 'any' ? 'any endpoint takes it' : 'all endpoints took it'],
      [
        'Signed',
        definition.signed ? definition.signing : html`<span class="warn-text">no: it has no shared secret</span>`,
      ],
      ['At most', definition.ratePerSecond === null ? 'no limit' : `${number(definition.ratePerSecond)} a second`],
      ['Processes that know it', number(processes)],
    ]} />`}<//><//>`;
}
