import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { get, post } from '../api.js';
import { Chart } from '../chart.js';
import { Choice, Composer, Field, isComposable } from '../composer.js';
import { count, number, percent } from '../format.js';
import { html } from '../html.js';
import { useData } from '../live.js';
import { useAddress } from '../router.js';
import { Action, Empty, Figures, Head, Problem, Section, Table, Time, Waiting } from '../ui.js';
import { audienceAddress } from './audiences.js';
import { personAddress } from './person.js';

/** @import { Answer } from '../api.js' */
/** @typedef {Answer<'/try', 'POST'>} Trial */
/** @typedef {NonNullable<Trial['people']>} People */

/**
 * A draft, which lives in the fragment of the address: browsers send that to nobody.
 *
 * @typedef {object} Draft
 * @property {'compose' | 'sql' | 'yaml'} mode
 * @property {Record<string, any>} item - of `compose` and `sql`
 * @property {string} text - of `yaml`
 * @property {string} [edits] - the key of a configured definition
 */

const MODES = { compose: 'Compose', sql: 'SQL', yaml: 'YAML' };
/** Milliseconds between the last key and a trial, and those that a trial may take. */
const [PAUSE, PATIENCE] = [400, 40_000];
const PARTS = ['people', 'overlap', 'past'];
/** @type {Record<string, string>} */
const CHANGES = { entered: 'would enter', exited: 'would leave', changed: 'would change' };

/** @returns {Draft | null} */
function draftInAddress() {
  try {
    return location.hash.length > 1 ? JSON.parse(decodeURIComponent(location.hash.slice(1))) : null;
  } catch {
    return null;
  }
}

/** Try a definition before it is in the configuration. @param {{ may: string[] }} props */
export default function Try({ may }) {
  const { edit } = useAddress().query;
  const names = useData('/try/names').data;
  const [draft, setDraft] = useState(draftInAddress);
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  useEffect(() => {
    const read = () => setDraft(draftInAddress());
    addEventListener('hashchange', read);
    return () => removeEventListener('hashchange', read);
  }, []);
  useEffect(() => {
    if (!names || (draft && edit === undefined)) return;
    setError(null);
    setDraft(null);
    if (edit === undefined) setDraft(freshDraft(names));
    else opened(edit).then(setDraft, setError);
  }, [names === null, edit]);
  /** @param {Draft} next */
  const change = (next) => {
    setDraft(next);
    history.replaceState(history.state, '', `${location.pathname}#${encodeURIComponent(JSON.stringify(next))}`);
  };
  return html`<${Head} title=${draft?.edits ? `Edit ${draft.edits}` : 'Try a definition'}
        up=${draft?.edits ? [audienceAddress(draft.edits), draft.edits] : undefined}
        about="Nothing is saved and nothing is sent. Copy the YAML into the configuration to keep it." />
    ${error && html`<${Problem} error=${error} />`}
    ${draft && names ? html`<${Workbench} draft=${draft} names=${names} may=${may} onChange=${change} />` : !error && html`<${Waiting} rows=${6} />`}`;
}

/** @param {Answer<'/try/names'>} names @returns {Draft} */
function freshDraft({ sources }) {
  return {
    mode: 'compose',
    text: '',
    item: { name: 'New audience', source: sources[0] ?? '', when: { all: [{ performed: '' }] } },
  };
}

/** @param {string} key @returns {Promise<Draft>} */
async function opened(key) {
  const { definition } = await get(audienceAddress(key));
  if (!definition) throw new Error(`${key} is no longer configured.`);
  const { yaml } = definition;
  const { draft } = await post('/try', { draft: yaml, edits: key, parts: [] }).catch(() => ({ draft: null }));
  return { ...modeOf(draft, yaml), edits: key };
}

/** The mode that shows an item whole. @param {any} item @param {string} text @returns {Draft} */
function modeOf(item, text) {
  const mode = typeof item?.sql === 'string' ? 'sql' : item && isComposable(item) ? 'compose' : 'yaml';
  return { mode, item: item ?? {}, text };
}

/** @param {{ draft: Draft, names: Answer<'/try/names'>, may: string[], onChange: (next: Draft) => void }} props */
function Workbench({ draft, names, may, onChange }) {
  const { mode, item, text, edits } = draft;
  const given = mode === 'yaml' ? text : item;
  const body = JSON.stringify({ draft: given, ...(edits ? { edits } : {}) });
  const { answer, error, busy, problems, again } = useTrial(body);
  const area = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  /** @param {string} next */
  const become = (next) => {
    const found = answer?.draft ?? item;
    if (next === 'yaml') onChange({ ...draft, mode: 'yaml', text: answer?.yaml ?? text });
    else if (next === 'sql') onChange({ ...draft, mode: 'sql', item: withSql(found) });
    else onChange({ ...draft, mode: 'compose', item: withShort(found) });
  };
  /** @param {Record<string, any>} next */
  const set = (next) => onChange({ ...draft, item: next });
  return html`<div class="draft">
      <fieldset class="ranges">
        <legend class="unseen">Write it as</legend>
        ${Object.entries(MODES).map(
          ([name, label]) =>
            html`<label key=${name} class="inline">
              <input type="radio" name="mode" value=${name} checked=${mode === name} onChange=${() => become(name)} />
              ${label}
            </label>`,
        )}
      </fieldset>
      ${mode !== 'yaml' && html`<${Settings} key=${mode} item=${item} names=${names} mode=${mode} onChange=${set} />`}
      ${mode === 'compose' && html`<${Composer} item=${item} names=${names} onChange=${set} />`}
      ${
        mode === 'sql' &&
        html`<${Text} title="SQL" area=${area} text=${item['sql'] ?? ''}
            onText=${(/** @type {string} */ sql) => set({ ...item, sql })} />`
      }
      ${
        mode === 'yaml' &&
        html`<${Text} title="YAML" area=${area} text=${text}
            onText=${(/** @type {string} */ next) => onChange({ ...draft, text: next })} />`
      }
      ${
        mode === 'sql' &&
        !may.includes('query') &&
        html`<p class="warn-text">
          Your token may not query: only the admin token tries SQL. The YAML below is complete without it.
        </p>`
      }
    </div>
    <div aria-live="polite" aria-busy=${busy} class=${busy && answer ? 'stale' : ''}>
      ${error && html`<${Problem} error=${error} retry=${again} />`}
      ${answer && html`<${Faults} answer=${answer} area=${mode === 'yaml' ? area : null} />`}
      ${answer?.people ? html`<${People} answer=${answer} />` : answer === null && !error ? html`<${Waiting} rows=${4} />` : null}
    </div>
    ${answer?.people && html`<${Further} answer=${answer} problems=${problems} busy=${busy} />`}
    ${answer?.mistakes.length === 0 && html`<${Written} answer=${answer} />`}`;
}

/** @param {Record<string, any>} item */
function withSql({ when, value, live, ...rest }) {
  return { ...rest, sql: rest['sql'] ?? '' };
}

/** @param {Record<string, any>} item */
function withShort({ sql, ...rest }) {
  return isComposable(rest) ? rest : { ...rest, when: { all: [{ performed: '' }] } };
}

/** @param {{ item: any, names: Answer<'/try/names'>, mode: string, onChange: (next: any) => void }} props */
function Settings({ item, names, mode, onChange }) {
  /** @param {string} kind */
  const become = (kind) => {
    const { when, value, ...rest } = item;
    onChange(kind === 'trait' ? { ...rest, value: { count: '' } } : { ...rest, when: { all: [{ performed: '' }] } });
  };
  /** @param {readonly string[]} all */
  const options = (all) => Object.fromEntries(all.map((name) => [name, name]));
  return html`<div class="filters">
    ${
      mode === 'compose' &&
      html`<${Choice} title="Kind" value=${item.value ? 'trait' : 'audience'}
          options=${{ audience: 'Audience', trait: 'Computed trait' }} onChoose=${become} />`
    }
    <${Field} wide title="Name" value=${item.name ?? ''}
        onText=${(/** @type {string} */ name) => onChange({ ...item, name })} />
    <${Choice} title="Source" value=${item.source} options=${options(names.sources)}
        onChoose=${(/** @type {string} */ source) => onChange({ ...item, source })} />
    ${
      names.engines.length > 1 &&
      html`<${Choice} title="Engine" value=${item.engine ?? names.engines[0]} options=${options(names.engines)}
          onChoose=${(/** @type {string} */ engine) => onChange({ ...item, engine })} />`
    }
  </div>`;
}

/** @param {{ title: string, area: any, text: string, onText: (text: string) => void }} props */
function Text({ title, area, text, onText }) {
  return html`<label>
    ${title}
    <textarea ref=${area} rows="12" value=${text} spellcheck=${false} dir="auto"
        onInput=${(/** @type {any} */ { target }) => onText(target.value)}>
    </textarea>
  </label>`;
}

/**
 * Tries the first draft at once, others when nobody has typed for a moment. A newer draft ends the trial.
 *
 * @param {string} body
 */
function useTrial(body) {
  const [state, setState] = useState(/** @type {any} */ ({ answer: null, error: null, busy: true, problems: {} }));
  const [round, setRound] = useState(0);
  useEffect(() => {
    const ending = new AbortController();
    const { signal } = ending;
    /** @param {any} next */
    const show = (next) => signal.aborted || setState(next);
    const go = async () => {
      let [answer, problems] = [/** @type {any} */ (null), {}];
      for (const part of PARTS) {
        /** @type {any} */
        const found = await post('/try', { ...JSON.parse(body), parts: [part] }, signal, PATIENCE);
        const { [part]: own, pastless, failure } = found;
        if (answer === null) answer = found;
        else if (failure) problems = { ...problems, [part]: failure.message };
        else answer = { ...answer, [part]: own, pastless };
        if (answer.people === null) break;
        show({ answer, error: null, busy: part !== PARTS.at(-1), problems });
      }
      show({ answer, error: null, busy: false, problems });
    };
    show((/** @type {any} */ last) => ({ ...last, busy: true }));
    const timer = setTimeout(
      () => go().catch((error) => show((/** @type {any} */ last) => ({ ...last, error, busy: false }))),
      state.answer || state.error ? PAUSE : 0,
    );
    return () => {
      clearTimeout(timer);
      ending.abort();
    };
  }, [body, round]);
  return { ...state, again: () => setRound(round + 1) };
}

/** @param {{ answer: Trial, area: any }} props - `area`: the text that mistakes have their places in */
function Faults({ answer: { mistakes, warnings, failure }, area }) {
  if (failure)
    return html`<div class="panel bad">
      <h2>It fails</h2>
      <p><code>${failure.code}</code></p>
      <pre>${failure.message}</pre>
    </div>`;
  const all = [...mistakes, ...warnings];
  if (all.length === 0) return null;
  /** @param {Trial['mistakes'][number]} mistake */
  const show = ({ line, column }) => {
    const before = area.current.value.split('\n').slice(0, (line ?? 1) - 1);
    const place = [...before, ''].join('\n').length + (column ?? 1) - 1;
    area.current.focus();
    area.current.setSelectionRange(place, place);
  };
  return html`<div class="panel warn">
    <h2>${mistakes.length > 0 ? count(mistakes.length, 'mistake') : count(warnings.length, 'warning')}</h2>
    <ul>
      ${all.map(
        (mistake, index) => html`<li key=${index}>
          ${area && mistake.line !== null && html`<button type="button" class="bare" onClick=${() => show(mistake)}>${mistake.line}:${mistake.column}</button> `}
          ${mistake.path && html`<code>${mistake.path}</code> `}
          ${mistake.message}
        </li>`,
      )}
    </ul>
  </div>`;
}

/** @param {{ answer: Trial }} props */
function People({ answer: { people, difference, sentences, kind } }) {
  if (!people) return null;
  const { members, invalid, duplicates, funnel, unnamed } = people;
  const notes = [
    ...(difference?.held ? [`A guard would hold it: ${difference.held}`] : []),
    ...(invalid > 0 ? [`${count(invalid, 'row')} without a usable user_id are left out.`] : []),
    ...(duplicates > 0 ? [`${count(duplicates, 'row')} beyond the first of their user are left out.`] : []),
    ...(unnamed.length > 0 ? [`Columns that \`with\` does not name are not sent: ${unnamed.join(', ')}.`] : []),
  ];
  const figures = [
    {
      title: kind === 'trait' ? 'People with a value' : 'People',
      value: number(members),
      note: difference && `now ${number(difference.before)}`,
    },
    ...(difference
      ? [
          { title: 'Would enter', value: number(difference.entered) },
          { title: 'Would leave', value: number(difference.exited), tone: difference.held ? 'warn' : undefined },
          ...(kind === 'trait' ? [{ title: 'Would change', value: number(difference.changed) }] : []),
        ]
      : []),
  ];
  return html`<${Section} title="Outcome">
      <${Figures} items=${figures} />
      ${notes.length > 0 && html`<ul>${notes.map((note) => html`<li key=${note}>${note}</li>`)}</ul>`}
    <//>
    ${
      difference !== null &&
      difference.sample.length > 0 &&
      html`<${Section} title=${`Some who would enter or leave ${difference.key}`}>
        <ul class="people">
          ${difference.sample.map(
            ({ userId, change }) => html`<li key=${userId}>
              <a href=${personAddress(userId)}><bdi>${userId}</bdi></a> ${CHANGES[change]}
            </li>`,
          )}
        </ul>
      <//>`
    }
    ${
      funnel &&
      html`<${Section} title="Conditions">
        <${Table} caption="People who pass each condition" columns=${funnelColumns(sentences)} rows=${funnel}
            keyOf=${(/** @type {{ path: string }} */ { path }) => path} />
      <//>`
    }
    <${Section} title="Some of them">
      ${
        people.sample.length === 0
          ? html`<${Empty} title="Nobody." />`
          : html`<${Table} caption="Some of the people" columns=${sampleColumns(people, sentences)} rows=${people.sample}
              keyOf=${(/** @type {{ userId: string }} */ { userId }) => userId} />`
      }
    <//>`;
}

/** @typedef {Trial['sentences']} Sentences */

/** What the log knows of a person for a condition. @param {{ times: number | null, last: string | null, value?: unknown }} props */
export function Evidence({ times, last, value }) {
  if (times === null) return (value ?? null) === null ? '–' : html`<code>${JSON.stringify(value)}</code>`;
  return html`${count(times, 'time')}${last && html`, last <${Time} at=${last} />`}`;
}

/** @param {Sentences} sentences @returns {import('../ui.js').Column[]} */
const funnelColumns = (sentences) => [
  { title: 'Condition', wide: true, cell: ({ path }) => html`<bdi>${sentences[path]}</bdi><small>${path}</small>` },
  { title: 'People', number: true, cell: ({ people }) => number(people) },
  { title: 'Left', number: true, cell: ({ left }) => number(left) },
];

/** @param {People} people @param {Sentences} sentences @returns {import('../ui.js').Column[]} */
function sampleColumns({ sample }, sentences) {
  /** @param {People['sample'][number]['why'][number]} each */
  const reason = (each) =>
    html`<li key=${each.path}><bdi>${sentences[each.path]}</bdi>: <${Evidence} ...${each} /></li>`;
  const explains = sample.some(({ why }) => why.length > 0);
  const values = sample.some(({ value }) => value !== null);
  return [
    {
      title: 'Person',
      wide: !explains && !values,
      cell: ({ userId }) => html`<a href=${personAddress(userId)}><bdi>${userId}</bdi></a>`,
    },
    ...(explains
      ? [
          {
            title: 'Why',
            wide: true,
            cell: (/** @type {People['sample'][number]} */ { why }) => html`<ul class="told">${why.map(reason)}</ul>`,
          },
        ]
      : []),
    ...(values
      ? [
          {
            title: 'Values',
            wide: true,
            cell: (/** @type {People['sample'][number]} */ { value }) => html`<code>${JSON.stringify(value)}</code>`,
          },
        ]
      : []),
  ];
}

/** Overlap and past, which take longer. @param {{ answer: Trial, problems: Record<string, string>, busy: boolean }} props */
function Further({ answer: { people, overlap, past, pastless, kind }, problems, busy }) {
  /** @type {import('../ui.js').Column[]} */
  const columns = [
    {
      title: 'Audience',
      wide: true,
      cell: ({ key, name, because }) =>
        html`<a href=${audienceAddress(key)}><bdi>${name}</bdi></a>
          ${because && html`<small>${because}</small>`}`,
    },
    { title: 'In both', number: true, cell: ({ both }) => number(both) },
    {
      title: 'Of these',
      number: true,
      cell: ({ both }) => (both === null || !people?.members ? '–' : percent(both / people.members)),
    },
    {
      title: 'Of its members',
      number: true,
      cell: ({ both, members }) => (both === null || !members ? '–' : percent(both / members)),
    },
  ];
  const shared = overlap?.toSorted((one, other) => (other.both ?? -1) - (one.both ?? -1));
  const waiting = busy && html`<${Waiting} rows=${2} />`;
  return html`${
    kind === 'audience' &&
    html`<${Section} title="Overlap">${
      problems['overlap']
        ? html`<p class="warn-text">${problems['overlap']}</p>`
        : shared === null || shared === undefined
          ? waiting
          : shared.length === 0
            ? html`<p class="soft">There is no other audience.</p>`
            : html`<${Table} caption="Other audiences, most in common first" columns=${columns} rows=${shared}
                keyOf=${(/** @type {{ key: string }} */ { key }) => key} />`
    }<//>
      <${Section} title="Size over the last 30 days">${
        problems['past']
          ? html`<p class="warn-text">${problems['past']}</p>`
          : past
            ? html`<div class="charts">
              <${Chart} title="As the log tells it now"
                  times=${past.map(({ at }) => Date.parse(at))}
                  series=${[{ label: 'people', tone: 1, values: past.map(({ members }) => members) }]}
                  format=${number} />
            </div>`
            : pastless
              ? html`<p class="soft">${pastless}</p>`
              : waiting
      }<//>`
  }`;
}

/** @param {{ answer: Trial }} props */
function Written({ answer: { sql, yaml, engine } }) {
  const id = useId();
  const copy = async () => {
    const text = /** @type {HTMLElement} */ (document.getElementById(id));
    // Browsers give pages without TLS no clipboard.
    if (navigator.clipboard) await navigator.clipboard.writeText(yaml ?? '');
    else {
      getSelection()?.selectAllChildren(text);
      document.execCommand('copy');
    }
    return 'The YAML is copied.';
  };
  return html`<${Section} title="YAML" aside=${html`<${Action} kind="main" run=${copy}>Copy YAML<//>`}>
      <pre id=${id} tabindex="0" aria-label="YAML">${yaml}</pre>
    <//>
    ${
      sql &&
      html`<${Section} title="SQL">
        <details><summary>As ${engine} runs it</summary><pre tabindex="0" aria-label="SQL">${sql}</pre></details>
      <//>`
    }`;
}
