import { useState } from 'preact/hooks';
import { get, post } from '../api.js';
import { Bars } from '../chart.js';
import { count, duration, notesOf, number } from '../format.js';
import { html } from '../html.js';
import { useData } from '../live.js';
import { Plan } from '../plan.js';
import { addressOf, navigate } from '../router.js';
import { Pages, useRows } from '../search.js';
import { Standings } from '../standings.js';
import { Sizes } from '../trends.js';
import {
  Action,
  Asks,
  Empty,
  Facts,
  Figures,
  Head,
  Loaded,
  Names,
  Section,
  State,
  Table,
  Time,
  Waiting,
} from '../ui.js';
import { audienceAddress, firstLine, memberAddress } from './audiences.js';
import { changesOf, Decision, runAddress } from './run.js';

/** @import { Answer, Row } from '../api.js' */
/** @typedef {Answer<'/audiences/{key}'>} Audience */
/** @typedef {Row<'/runs'>} Run */

const RUNS = 60;
const LISTED = 15;

/** @param {{ name: string, may: string[] }} props */
export default function Audience({ name, may }) {
  const live = useData(audienceAddress(name), ['audiences', 'runs']);
  const runs = useRows('/runs', { key: name }, RUNS, ['runs']);
  return html`<${Heading} name=${name} audience=${live.data} may=${may} />
    <${Loaded} live=${live} rows=${6}>${(/** @type {Audience} */ audience) => html`${
      audience.ordered &&
      html`<div class="panel">
        <p>
          Ordered <${Time} at=${audience.ordered.at} ago=${false} />
          : a ${audience.ordered.action} waits for its turn, behind other runs of ${audience.engine === 'live' ? 'this audience' : `the engine ${audience.engine}`}
          .
        </p>
      </div>`
    }
      <${Todo} audience=${audience} may=${may} />
      <${Figures} items=${figuresOf(audience)} />
      ${runs.rows === null ? html`<${Waiting} />` : html`<${History} audience=${audience} runs=${runs.rows} />`}
      <${Members} audience=${audience} />
      <${Standings} standings=${audience.destinations} of="audience" />
      ${audience.definition && html`<${Definition} audience=${audience} />`}`}<//>`;
}

/** @param {{ name: string, audience: Audience | null, may: string[] }} props - `audience`: null until it is known */
function Heading({ name, audience, may }) {
  const [plan, setPlan] = useState(/** @type {Answer<'/audiences/{key}/plan'> | null} */ (null));
  const look = async () => setPlan(await get(addressOf('/audiences/{key}/plan', { key: name })));
  const configured = audience !== null && audience.state !== 'orphaned';
  const operates = audience !== null && may.includes('operate');
  const kind = audience?.kind === 'trait' ? 'Computed trait' : 'Audience';
  return html`<${Head} title=${name} up=${['/audiences', 'Audiences']}
        about=${audience && html`<${State} of=${audience.state} /><span>${kind}</span>`}>
      ${
        configured &&
        operates &&
        audience.state !== 'paused' &&
        html`<${Action} kind="main" run=${orderOf(name, 'sync', `A run of ${name} is ordered.`)}>
          Run now
        <//>`
      }
      ${
        configured &&
        html`<${Action} run=${look}>Plan<//>
          <a class="button" href=${addressOf('/try', { edit: name })}>Try changes</a>`
      }
      ${configured && operates && html`<${Pausing} audience=${audience} />`}
      ${operates && html`<${Orders} audience=${audience} />`}
    <//>
    ${plan && html`<${Plan} plan=${plan} state=${audience?.state} onClose=${() => setPlan(null)} />`}`;
}

/** @param {string} key @param {string} verb @param {string} said */
const orderOf = (key, verb, said) => async () => {
  await post(`${audienceAddress(key)}/${verb}`);
  return said;
};

/** Only the configuration resumes an audience that it pauses. @param {{ audience: Audience }} props */
function Pausing({ audience: { key, state, paused, live } }) {
  const again = live ? `${key} is sent again as it is computed.` : `${key} runs again, at its next tick.`;
  if (paused) return html`<${Action} kind="main" run=${orderOf(key, 'resume', again)}>Resume<//>`;
  if (state === 'paused') return null;
  const until = live ? 'It goes on being computed; nothing of it is sent' : 'Nothing syncs it';
  return html`<${Asks} run=${orderOf(key, 'pause', `${key} is paused.`)} title=${`Pause ${key}?`} confirm="Pause"
      question=${html`<p>
        ${until} until somebody resumes it. Members stay members, and the configuration stays as it is.
      </p>`}>
    Pause
  <//>`;
}

/** Actions that may affect many people. They ask first. @param {{ audience: Audience }} props */
function Orders({ audience: { key, kind, state, members } }) {
  const everyone = members === null ? 'Every member' : count(members, 'member');
  const configured = state !== 'orphaned';
  const again = html`<p>${everyone}, and everyone who ever left, are sent to every destination again.</p>
    <p>Do this when a receiver has lost its data.</p>`;
  const end = html`<p>
      <strong>${everyone}</strong> will be sent <code>${kind === 'trait' ? 'null' : 'false'}</code>
      , and ${key} is forgotten.
    </p>
    <p>${
      configured
        ? 'Take it out of the configuration too, or its next run sends everyone again.'
        : 'It is gone from the configuration; this tells the receivers.'
    }</p>`;
  return html`${
    configured &&
    html`<${Asks} run=${orderOf(key, 'resync', `${key} will be sent again.`)}
        title=${`Send all of ${key} again?`} confirm="Send again" question=${again}>Resync<//>`
  }
    <${Asks} kind="danger" type=${key} run=${orderOf(key, 'retire', `${key} will be retired.`)}
        title=${`Retire ${key}?`} confirm="Retire" question=${end}>Retire<//>`;
}

/** The next step of a person. @param {{ audience: Audience, may: string[] }} props */
function Todo({ audience, may }) {
  const { todo, key, paused, live } = audience;
  const meanwhile = live ? 'Nothing of it is sent' : 'No schedule runs it';
  if (paused && todo === null)
    return html`<div class="panel warn">
      <h2>Paused</h2>
      <p>${paused.by} paused it <${Time} at=${paused.since} />. ${meanwhile} until it is resumed.</p>
    </div>`;
  if (todo?.do === 'decide') return html`<${Decision} run=${todo.run} reason=${todo.reason} may=${may} />`;
  if (todo?.do === 'repair') {
    return html`<div class="panel bad">
      <h2>It fails</h2>
      <p>Since <${Time} at=${todo.since} ago=${false} />, with <code>${todo.code}</code>.</p>
      <pre>${todo.reason}</pre>
      <p>Members and receivers are as they were. Mend the cause, then run it again; the schedule tries again, too.</p>
    </div>`;
  }
  if (todo?.do !== 'retire') return null;
  return html`<div class="panel warn">
    <h2>No longer configured</h2>
    <p>
      Receivers still take its members for members. Retire it to send them <code>false</code>
      , or put ${key} back into the configuration.
    </p>
  </div>`;
}

/** @param {Audience} audience */
function figuresOf(audience) {
  const { members, lastRun, schedule, nextRunAt, live } = audience;
  const known = [
    { title: 'Members', value: number(members), note: changeOf(audience) },
    {
      title: 'Last run',
      value: html`<${Time} at=${lastRun?.startedAt} />`,
      note: lastRun && html`<${State} of=${lastRun.state} />`,
    },
  ];
  if (live) {
    return [
      ...known,
      {
        title: 'Computed',
        value:
          live.lag === null
            ? live.progress === null
              ? 'not yet'
              : `${Math.floor(100 * live.progress)} %`
            : live.hold === null
              ? 'live'
              : 'on hold',
        note: live.hold ?? liveNote(live),
      },
      { title: 'Due', value: number(live.due), note: 'may change by time alone' },
    ];
  }
  return [
    ...known,
    { title: 'Took', value: duration(lastRun?.ms) },
    {
      title: 'Next run',
      value: nextRunAt ? html`<${Time} at=${nextRunAt} />` : '–',
      note: schedule ? html`<code>${schedule}</code>` : 'by hand',
    },
  ];
}

/** @param {{ lag: number | null }} live */
function liveNote({ lag }) {
  if (lag === null) return 'it is computed over the event log';
  return lag < 1_000 ? 'as events come and time goes by' : `${duration(lag)} behind`;
}

/** A note on how the size has changed. @param {Audience} audience */
function changeOf({ members, trend, lastRun, live }) {
  if (members === null) return 'not counted yet';
  if (live) return 'as receivers know it';
  const change = (trend.at(-1) ?? 0) - (trend.at(-2) ?? trend.at(-1) ?? 0);
  const by = lastRun?.state === 'done' ? 'the last run' : 'the last run that was done';
  return change === 0 ? `as before ${by}` : `${change > 0 ? '+' : '−'}${number(Math.abs(change))} by ${by}`;
}

/** @param {{ audience: Audience, runs: Run[] }} props */
function History({ audience, runs }) {
  if (runs.length === 0 && !audience.live) {
    return html`<${Section} title="Runs">
      <${Empty} title="It has not run yet.">
        ${
          audience.nextRunAt
            ? html`<p>The first run is due <${Time} at=${audience.nextRunAt} />.</p>`
            : html`<p>
              Run it now, or give it a schedule.
            </p>`
        }
      <//>
    <//>`;
  }
  const known = runs.filter(({ state }) => state === 'done').toReversed();
  return html`${audience.live ? html`<${Sizes} name=${audience.key} />` : known.length > 0 && html`<${Changes} name=${audience.key} runs=${known} />`}
    <${Section} title="Runs">
      <${Table} caption="Runs, newest first" columns=${RUN_COLUMNS} rows=${runs.slice(0, LISTED)} keyOf=${runOf} />
    <//>`;
}

/** @param {Run} run */
const runOf = ({ run }) => run;

/** @param {{ name: string, runs: Run[] }} props - `runs`: oldest first */
function Changes({ name, runs }) {
  // Leave out the first run, in which everyone entered: it would dwarf the others.
  const since = runs.filter(({ first }) => !first);
  const bars = (since.length > 0 ? since : runs).map((run) => ({
    id: run.run,
    entered: run.entered + run.changed,
    exited: run.exited,
    href: runAddress(run),
    label: `${changesOf(run)}, ${run.startedAt}`,
  }));
  return html`<${Sizes} name=${name}>
    <${Bars} title=${bars.length === 1 ? 'The last run' : `The last ${number(bars.length)} runs`} runs=${bars}
        changed=${runs.some(({ changed }) => changed > 0)} />
  <//>`;
}

/** @type {import('../ui.js').Column<Run>[]} */
const RUN_COLUMNS = [
  {
    title: 'Started',
    cell: (run) => html`<a href=${runAddress(run)}><${Time} at=${run.startedAt} ago=${false} /></a>`,
  },
  {
    title: 'State',
    cell: ({ state, reason }) =>
      html`<${State} of=${state} />${reason ? html`<small>${firstLine(reason)}</small>` : null}`,
    wide: true,
  },
  { title: 'What', cell: ({ action, first }) => (first ? 'first\u00a0sync' : action) },
  { title: 'Entered', number: true, cell: ({ before, entered }) => (before === null ? '–' : number(entered)) },
  { title: 'Exited', number: true, cell: ({ before, exited }) => (before === null ? '–' : number(exited)) },
  { title: 'Changed', number: true, cell: ({ before, changed }) => (before === null ? '–' : number(changed)) },
  { title: 'Members', number: true, cell: ({ before, members }) => (before === null ? '–' : number(members)) },
  { title: 'Sent', number: true, cell: ({ sent }) => number(sent) },
  { title: 'Took', number: true, cell: ({ ms }) => duration(ms) },
];

/** @param {{ audience: Audience }} props */
function Members({ audience }) {
  const [shown, setShown] = useState(false);
  /** @param {any} event */
  const find = (event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const [user, time] = [String(form.get('user')), String(form.get('at'))];
    const at = time === '' ? undefined : new Date(time).toISOString();
    navigate(memberAddress(audience.key, user, at));
  };
  return html`<${Section} title="Members">
    <form class="filters" role="search" onSubmit=${find}>
      <label class="search">
        Is someone in it, and since when?
        <input type="search" name="user" required placeholder="user id" autocomplete="off" spellcheck=${false} />
      </label>
      <label>As it was at<input type="datetime-local" name="at" /></label>
      <button type="submit">Look up</button>
      ${shown ? null : html`<button type="button" onClick=${() => setShown(true)}>List members</button>`}
    </form>
    ${
      shown &&
      html`<${Pages} path="/audiences/{key}/members" query=${{ key: audience.key }} enough=${100}
            none="It has no members.">${(/** @type {Row<'/audiences/{key}/members'>[]} */ rows) =>
              html`<ul class="people">
                ${rows.map(
                  ({ userId, traits }) => html`<li key=${userId}>
                    <a href=${memberAddress(audience.key, userId)}><bdi>${userId}</bdi></a>
                    ${traits === undefined ? null : html` <code>${JSON.stringify(traits)}</code>`}
                  </li>`,
                )}
              </ul>`}<//>
        <p class="more soft"><code>rollcall members ${audience.key} --csv</code> lists them all.</p>`
    }
  <//>`;
}

/** @param {{ audience: Audience & { definition: {} } }} props */
function Definition({ audience: { definition, source, engine, kind, ...about } }) {
  const { name, timezone, timeout, guard, destinations, language, text, version, sentence } = definition;
  /** @param {{ percent: number } | { count: number } | null} threshold */
  const limit = (threshold) =>
    threshold === null ? 'any number' : 'percent' in threshold ? `${threshold.percent} %` : number(threshold.count);
  return html`<${Section} title="Definition">
    ${sentence && html`<p>${sentence}</p>`}
    <pre tabindex="0" aria-label=${language === 'sql' ? 'SQL' : 'Definition'}>${text}</pre>
    <${Facts} items=${[
      ['Name', name],
      ['Version', html`<code>${version}</code>`],
      ...notesOf(about),
      ['Speaks as source', html`<a href=${addressOf('/sources', { source })}>${source}</a>`],
      ['Engine', engine],
      [
        'Destinations',
        destinations.length === 0
          ? html`<span class="warn-text">none is connected to ${source}</span>`
          : html`<${Names} names=${destinations} />`,
      ],
      ['May run for', duration(timeout)],
      ['Time zone', timezone ?? 'of the machine'],
      ...(kind === 'audience'
        ? [
            ['Exits without asking', limit(guard.maxExits)],
            ['Entries without asking', limit(guard.maxEntries)],
            ['May become empty', guard.allowEmpty ? 'yes' : 'asks'],
          ]
        : []),
    ]} /><//>`;
}
