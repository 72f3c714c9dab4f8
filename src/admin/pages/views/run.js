import { post } from '../api.js';
import { count, duration, number } from '../format.js';
import { html } from '../html.js';
import { fetchRows, useData } from '../live.js';
import { addressOf, refine, useAddress } from '../router.js';
import { Pages } from '../search.js';
import { Action, Asks, Facts, Figures, Head, Loaded, Section, State, Table, Time, Waiting } from '../ui.js';
import { audienceAddress, memberAddress } from './audiences.js';

/** @import { Answer, Row } from '../api.js' */
/** @typedef {Row<'/runs'>} Run */
/** @typedef {Row<'/runs/{run}/changes'>} Changed */

/** @param {{ key: string, run: string }} run */
export const runAddress = ({ key, run }) => addressOf('/audiences/{key}/runs/{run}', { key, run });

const HELD = 'A run is held and waits for you';

/** @param {Run} run - that is held */
function changesToCome({ entered, exited, changed }) {
  const parts = [`${number(entered)} would enter`, `${number(exited)} would leave`];
  return [...parts, ...(changed > 0 ? [`${number(changed)} would change`] : [])].join(', ');
}

/** @param {Run} run */
export function changesOf({ entered, exited, changed }) {
  return [
    `${number(entered)} entered`,
    `${number(exited)} exited`,
    ...(changed > 0 ? [`${number(changed)} changed`] : []),
  ].join(', ');
}

/** The reasons that its changes give to receivers. @param {Run} run */
const reasonsOf = ({ reasons }) =>
  Object.entries(reasons)
    .map(([reason, counted]) => `${reason.replaceAll('_', ' ')} (${number(counted)})`)
    .join(', ');

/** @param {{ name: string, run: string, may: string[] }} props */
export default function Run({ name, run: id, may }) {
  const live = useData(addressOf('/runs/{run}', { run: id }), ['runs', 'messages']);
  const { data } = live;
  const isHeld = data?.state === 'held';
  const about =
    data &&
    html`<${State} of=${data.state} />
      <span>${data.first ? 'first sync' : data.action}</span>
      <${Time} at=${data.startedAt} ago=${false} />`;
  return html`<${Head} title=${`Run of ${name}`} up=${[audienceAddress(name), name]} about=${html`${about}
    <code>${id}</code>`} />
    <${Loaded} live=${live} rows=${6}>${(
      /** @type {Answer<'/runs/{run}'>} */ run,
    ) => html`${isHeld && html`<${Decision} run=${run.run} may=${may} />`}
      ${
        run.state === 'failed' &&
        html`<div class="panel bad">
          <p><code>${run.code}</code></p>
          <pre>${run.reason}</pre>
        </div>`
      }
      ${
        run.before !== null &&
        html`<${Figures} items=${[
          isHeld
            ? { title: 'Members now', value: number(run.before), note: `${number(run.members)} if it is approved` }
            : { title: 'Members', value: number(run.members), note: `${number(run.before)} before it` },
          { title: isHeld ? 'Would enter' : 'Entered', value: number(run.entered) },
          { title: isHeld ? 'Would leave' : 'Exited', value: number(run.exited) },
          ...(run.kind === 'trait' || run.changed > 0
            ? [{ title: isHeld ? 'Would change' : 'Changed', value: number(run.changed) }]
            : []),
          { title: 'Sent', value: number(run.sent), note: run.ms === null ? '' : `in ${duration(run.ms)}` },
        ]} />`
      }
      ${
        reasonsOf(run) &&
        html`<p class="soft">
          ${isHeld ? 'Would be sent' : 'Sent'} for the reason: ${reasonsOf(run)}
        </p>`
      }
      <${Delivered} run=${run} />
      ${run.before !== null && html`<${Changes} run=${run} />`}
      <${Section} title="More">
        <${Facts} items=${[
          ['As of', html`<${Time} at=${run.asOf} ago=${false} />`],
          ['Version of the definition', html`<code>${run.definitionHash}</code>`],
          ['Rows without a user id', number(run.invalid)],
          ['Rows beyond the first of a user', number(run.duplicates)],
          ...(run.held && run.state !== 'held' ? [['It was held', run.reason ?? 'yes']] : []),
        ]} />
      <//>`}<//>`;
}

/** @param {{ run: Answer<'/runs/{run}'> }} props */
function Delivered({ run: { deliveries } }) {
  const { total, delivered, dead, waiting, superseded } = deliveries;
  if (total === 0) return null;
  return html`<${Section} title="What became of its messages"><${Figures} items=${[
    { title: 'Delivered', value: number(delivered), note: `of ${number(total)}` },
    { title: 'Waiting', value: number(waiting), tone: waiting > 0 ? 'warn' : undefined },
    {
      title: 'Dead',
      value: number(dead),
      tone: dead > 0 ? 'bad' : undefined,
      note: dead > 0 ? html`<a href="/dead-letters">dead letters</a>` : '',
    },
    { title: 'Replaced by newer ones', value: number(superseded) },
  ]} /><//>`;
}

/** Words for the changes of a held run. @type {Record<string, string>} */
const WOULD = { entered: 'would enter', exited: 'would leave', changed: 'would change' };

/** The most changes that a browser saves in a file. */
const SAVED = 100_000;

/** Save the changes of a run as a file. @param {Run} run @param {string} change */
async function save(run, change) {
  const path = addressOf('/runs/{run}/changes', { run: run.run, change });
  const { data, next } = await fetchRows(path, { rows: SAVED, pages: SAVED });
  const lines = data.map(({ userId, change, traits }) =>
    [userId, change, ...(traits === undefined ? [] : [JSON.stringify(traits)])].map(csvField).join(),
  );
  const link = document.createElement('a');
  link.href = URL.createObjectURL(
    new Blob([['user_id,change,traits', ...lines, ''].join('\r\n')], { type: 'text/csv' }),
  );
  link.download = `${run.key}-${run.run}.csv`;
  link.click();
  URL.revokeObjectURL(link.href);
  return next === null
    ? `${number(lines.length)} saved.`
    : `The first ${number(lines.length)} saved; rollcall runs ${run.run} --changes has all.`;
}

/** Spreadsheets would compute a text such as =1+1. @param {string} text */
const csvField = (text) => `"${text.replace(/^[=+\-@\t\r\n]/, "'$&").replaceAll('"', '""')}"`;

/** @param {{ run: Answer<'/runs/{run}'> }} props */
function Changes({ run }) {
  const { change = '' } = useAddress().query;
  const isHeld = run.state === 'held';
  const kinds = ['entered', 'exited', ...(run.changed > 0 ? ['changed'] : [])];
  const choose = html`<label class="inline">
      Show <select value=${change} onChange=${(/** @type {any} */ event) => refine({ change: event.target.value })}>
        <option value="">all</option>
        ${kinds.map((each) => html`<option key=${each} value=${each}>${isHeld ? WOULD[each] : each}</option>`)}
      </select>
    </label>
    <${Action} run=${() => save(run, change)}>Save as CSV<//>`;
  const title = isHeld ? 'Who would enter and leave' : 'Who entered and left';
  return html`<${Section} title=${title} aside=${choose}>
    <${Pages} path="/runs/{run}/changes" query=${{ run: run.run, change }} enough=${100} none="Nobody.">
      ${(/** @type {Changed[]} */ rows) => html`
        <${Table} caption=${title} rows=${rows} keyOf=${(/** @type {Changed} */ row) => row.userId} columns=${[
          {
            title: 'User',
            wide: true,
            cell: (/** @type {Changed} */ { userId }) =>
              html`<a href=${memberAddress(run.key, userId)}><bdi>${userId}</bdi></a>`,
          },
          {
            title: 'Change',
            cell: (/** @type {Changed} */ { change }) =>
              html`<span class=${change === 'exited' ? 'bad-text' : change === 'entered' ? 'good-text' : ''}>
                ${isHeld ? WOULD[change] : change}
              </span>`,
          },
          ...(run.kind === 'trait'
            ? [
                {
                  title: 'Value',
                  wide: true,
                  cell: (/** @type {Changed} */ { traits }) => html`<code>${JSON.stringify(traits)}</code>`,
                },
              ]
            : []),
        ]} />`}
    <//>
  <//>`;
}

/**
 * A held run, with the effects of approving or rejecting it.
 *
 * @param {{ run: string, may: string[], reason?: string }} props - `reason`: shown until the run has loaded
 */
export function Decision({ run: id, may, reason }) {
  const live = useData(addressOf('/runs/{run}', { run: id }), ['runs']);
  const run = live.data;
  if (run === null && reason && !live.error)
    return html`<div class="panel warn decision"><h2>${HELD}</h2><p>${reason}</p><${Waiting} rows=${2} /></div>`;
  if (run?.state !== 'held' || run.before === null) return null;
  const share = run.before > 0 ? ` (${Math.round((100 * run.exited) / run.before)} % of ${number(run.before)})` : '';
  /** @param {string} verb @param {string} said */
  const decide = (verb, said) => async () => {
    await post(addressOf('/runs/{run}/{verb}', { run: id, verb }));
    return said;
  };
  return html`<div class="panel warn decision">
    <h2>${HELD}</h2>
    <p>${run.reason}</p>
    <p>Staged <${Time} at=${run.startedAt} />: <a href=${runAddress(run)}>${changesToCome(run)}</a>${share}.</p>
    ${
      may.includes('operate') &&
      html`<div class="buttons">
        <${Asks} kind="main" run=${decide('approve', 'Approved: the changes are being sent.')}
            title="Approve this run?" confirm="Approve and send"
            question=${html`<p>
                Receivers get <strong>${changesOf(run)}</strong>
                . ${run.key} then has ${count(run.members, 'member')}
                ; it has ${number(run.before)} now.
              </p>
              <p>What was sent can’t be called back, only corrected by a later run.</p>`}>
          Approve…
        <//>
        <${Asks} run=${decide('reject', 'Rejected: nothing was sent.')} title="Reject this run?" confirm="Reject"
            question=${html`<p>
              Nothing is sent, and ${run.key} keeps its ${count(run.before, 'member')}
              . The next run computes again, and is held again unless the data has changed.
            </p>`}>
          Reject…
        <//>
      </div>`
    }
  </div>`;
}
