import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { distance, FEW, moment, zoned } from './format.js';
import { html } from './html.js';
import { refreshAll } from './live.js';
import { refine, useAddress } from './router.js';

/** @typedef {import('preact').ComponentChildren} Children */
/** @typedef {'good' | 'warn' | 'bad' | 'quiet' | 'busy'} Tone */

/** Tones of states. A word always goes with the colour. @type {Record<string, Tone>} */
const TONES = {
  open: 'good',
  ok: 'good',
  success: 'good',
  done: 'good',
  delivered: 'good',
  FINISHED: 'good',
  held: 'warn',
  paused: 'warn',
  refusing: 'bad',
  overdue: 'warn',
  frozen: 'warn',
  retry: 'warn',
  skipped: 'quiet',
  pending: 'busy',
  INITIALIZED: 'busy',
  RUNNING: 'busy',
  PARTIAL_SUCCESS: 'warn',
  staged: 'busy',
  sending: 'busy',
  committed: 'busy',
  running: 'busy',
  dead: 'bad',
  failed: 'bad',
  refused: 'bad',
  FAILED: 'bad',
  tls_untrusted: 'bad',
  address_refused: 'bad',
  orphaned: 'warn',
};

/** @param {{ of: string, label?: Children }} props */
export function State({ of, label = of.toLowerCase().replaceAll('_', ' ') }) {
  return html`<span class="state ${TONES[of] ?? 'quiet'}">${label}</span>`;
}

/** @type {Set<(now: number) => void>} */
const clocks = new Set();
const TICK = 5_000;
setInterval(() => {
  // Changing a text would lose the reader's selection.
  if (document.hidden || getSelection()?.isCollapsed === false) return;
  for (const clock of clocks) clock(Date.now());
}, TICK);

function useNow() {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    clocks.add(setNow);
    return () => void clocks.delete(setNow);
  }, []);
  return now;
}

/** A text whose direction is its own: names may be Arabic. @param {Children} shown */
const isolated = (shown) => (typeof shown === 'string' ? html`<bdi>${shown}</bdi>` : shown);

/** A time, and with `ago` its distance. @param {{ at: string | number | null | undefined, ago?: boolean }} props */
export function Time({ at, ago = true }) {
  const now = useNow();
  if (at === null || at === undefined) return html`<span class="none">–</span>`;
  const time = new Date(at);
  const iso = time.toISOString();
  const [shown, title] = ago ? [distance(+time, now), zoned(+time)] : [moment(+time, now), zoned(+time)];
  return html`<time datetime=${iso} title=${title}>${shown}</time>`;
}

/** @param {{ title: string, children?: Children }} props */
export function Empty({ title, children }) {
  return html`<div class="empty"><p class="title">${title}</p>${children ? html`<div>${children}</div>` : null}</div>`;
}

/** An error, with a button to retry. @param {{ error: any, retry?: () => void }} props */
export function Problem({ error, retry }) {
  return html`<div class="problem" role="alert">
    <p><strong>${error.message}</strong>${error.code ? html` <code>${error.code}</code>` : null}</p>
    ${retry ? html`<button type="button" onClick=${retry}>Try again</button>` : null}
  </div>`;
}

/** A placeholder for data. @param {{ rows?: number }} props */
export function Waiting({ rows = 3 }) {
  return html`<div class="waiting" aria-busy="true"><span class="unseen">Loading…</span>
    ${Array.from({ length: rows }, (_, index) => html`<div key=${index}></div>`)}</div>`;
}

/**
 * Shows data once it has loaded, or the error in its place.
 *
 * @param {{ live: import('./live.js').Live<any>, rows?: number, children: (data: any) => Children }} props
 */
export function Loaded({ live, rows, children }) {
  if (live.data === null) {
    return live.error
      ? html`<${Problem} error=${live.error} retry=${live.reload} />`
      : html`<${Waiting} rows=${rows} />`;
  }
  return html`<div class=${live.stale ? 'stale' : ''} aria-busy=${live.stale}>${children(live.data)}</div>`;
}

/**
 * @template [R=any]
 * @typedef {object} Column
 * @property {string} title
 * @property {(row: R) => Children} cell
 * @property {boolean} [number] - aligned as a number
 * @property {boolean} [wide] - takes the remaining width
 * @property {(row: R) => string | number | null | undefined} [by] - sorts by this; for tables that have every row
 */

/**
 * A table. Rows are identified by key, so that new data moves neither focus nor selection. On a phone each row is a card.
 *
 * @param {{
 *   caption: string, columns: readonly Column[], rows: readonly any[], keyOf?: (row: any) => string,
 *   chosen?: ReadonlySet<string>, onChoose?: (chosen: ReadonlySet<string>) => void, nameOf?: (row: any) => string,
 * }} props
 */
export function Table({ caption, columns, rows, keyOf = ({ id }) => id, chosen, onChoose, nameOf = keyOf }) {
  const { query } = useAddress();
  const { sort = '' } = query;
  const all = chosen !== undefined && rows.length > 0 && rows.every((row) => chosen.has(keyOf(row)));
  /** @param {string} key */
  const toggle = (key) => onChoose?.(new Set(chosen).symmetricDifference(new Set([key])));
  const toggleAll = () => onChoose?.(new Set(all ? [] : rows.map(keyOf)));
  return html`<table role="table">
    <caption class="unseen">${caption}</caption>
    <thead role="rowgroup">
      <tr role="row">
        ${
          onChoose &&
          html`<th role="columnheader" class="choice">
            <input type="checkbox" aria-label="Choose all shown" checked=${all} onChange=${toggleAll} />
          </th>`
        }
        ${columns.map(
          ({ title, number, wide, by }) =>
            html`<th key=${title} role="columnheader" scope="col" class=${classes({ number, wide })}
                aria-sort=${sort === title ? 'ascending' : sort === `-${title}` ? 'descending' : undefined}>${
                  by
                    ? html`<button type="button" class="bare"
                        onClick=${() => refine({ ...query, sort: nextSort(title, sort) })}>
                      ${title}
                    </button>`
                    : title
                }</th>`,
        )}
      </tr>
    </thead>
    <tbody role="rowgroup">${sorted(rows, columns, sort).map((row) => {
      const key = keyOf(row);
      return html`<tr key=${key} role="row" class=${chosen?.has(key) ? 'chosen' : ''}>
        ${
          onChoose &&
          html`<td role="cell" class="choice">
            <input type="checkbox" aria-label=${`Choose ${nameOf(row)}`} checked=${chosen?.has(key)}
                onChange=${() => toggle(key)} />
          </td>`
        }
        ${columns.map(
          ({
            title,
            cell,
            number,
            wide,
          }) => html`<td key=${title} role="cell" data-label=${title} class=${classes({ number, wide })}>
            <div>${isolated(cell(row))}</div>
          </td>`,
        )}
      </tr>`;
    })}</tbody>
  </table>`;
}

/** Greatest first, then smallest first, then as it was. @param {string} title @param {string} sort */
const nextSort = (title, sort) => (sort === `-${title}` ? title : sort === title ? undefined : `-${title}`);

/** Rows without a value go last. @param {readonly any[]} rows @param {readonly Column[]} columns @param {string} sort */
function sorted(rows, columns, sort) {
  const by = columns.find(({ title }) => title === sort.replace(/^-/, ''))?.by;
  if (!by) return rows;
  const known = rows.filter((row) => (by(row) ?? null) !== null);
  const [less, more] = sort.startsWith('-') ? [1, -1] : [-1, 1];
  known.sort((one, other) => {
    const [a, b] = /** @type {[any, any]} */ ([by(one), by(other)]);
    return a < b ? less : a > b ? more : 0;
  });
  return [...known, ...rows.filter((row) => (by(row) ?? null) === null)];
}

/** @param {Record<string, boolean | undefined>} names */
function classes(names) {
  return Object.keys(names)
    .filter((name) => names[name])
    .join(' ');
}

/** Figures that belong together. @param {{ items: readonly { title: string, value: Children, note?: Children, tone?: Tone | undefined }[] }} props */
export function Figures({ items }) {
  return html`<dl class="figures">${items.map(
    ({ title, value, note, tone }) =>
      html`<div key=${title} class=${tone ?? ''}>
        <dt>${title}</dt>
        <dd>${value}</dd>
        ${note ? html`<dd class="note">${note}</dd>` : null}
      </div>`,
  )}</dl>`;
}

/** Names in a line. If there are many, the rest is folded away. @param {{ names: readonly string[] }} props */
export function Names({ names }) {
  const listed = names.map(
    (name, index) => html`<bdi key=${name}>${name}</bdi>${index < names.length - 1 ? ', ' : ''}`,
  );
  if (names.length <= FEW) return listed;
  return html`${listed.slice(0, FEW)}
    <details><summary>and ${names.length - FEW} more</summary>${listed.slice(FEW)}</details>`;
}

/** A list. A long one shows only its sum until it is opened. @param {{ length: number, sum: string, children: Children }} props */
export function Folded({ length, sum, children }) {
  return length <= FEW ? children : html`<details><summary>${sum}</summary>${children}</details>`;
}

/** Names and values. @param {{ items: readonly (readonly [string, Children])[] }} props */
export function Facts({ items }) {
  return html`<dl class="facts">
    ${items.map(([title, value]) => html`<div key=${title}><dt>${title}</dt><dd>${isolated(value)}</dd></div>`)}
  </dl>`;
}

/**
 * The head of a page. It gets the focus when the page opens.
 *
 * @param {{ title: string, name?: Children, about?: Children, up?: readonly [string, string], children?: Children }} props
 *   - `name`: shown in place of the title, which stays the tab's; `up`: address and name of the page above
 */
export function Head({ title, name = title, about, up, children }) {
  useEffect(() => {
    document.title = `${title} · Rollcall`;
  }, [title]);
  return html`<div class="head"><div>
    ${up && html`<p class="crumbs"><a href=${up[0]}><bdi>${up[1]}</bdi></a></p>`}
    <h1 tabindex="-1">${isolated(name)}</h1>
    ${about ? html`<div class="about">${about}</div>` : null}
  </div>${children ? html`<div class="buttons">${children}</div>` : null}</div>`;
}

/** @param {{ title: string, aside?: Children, children: Children }} props */
export function Section({ title, aside, children }) {
  const id = useId();
  return html`<section aria-labelledby=${id}><header><h2 id=${id}>${title}</h2>${aside}</header>${children}</section>`;
}

/**
 * The answer to an action, until it is closed. The focus then returns to the action.
 *
 * @param {{ title: string, label: string, tone?: Tone | undefined, role?: string, onClose: () => void, children: Children }} props
 */
export function Panel({ title, label, tone = 'quiet', role, onClose, children }) {
  const opener = useRef(/** @type {any} */ (document.activeElement));
  useEffect(() => () => opener.current?.focus(), []);
  return html`<section class="panel ${tone}" aria-label=${label} role=${role}>
    <header><h2>${title}</h2><button type="button" onClick=${onClose}>Close</button></header>
    ${children}
  </section>`;
}

/** @type {{ say: (text: string, tone?: Tone) => void }} */
const voice = { say() {} };

/** Shows what has happened, also to screen readers, and disappears automatically. */
export function Voice() {
  const [said, setSaid] = useState(/** @type {{ text: string, tone: Tone } | null} */ (null));
  const timer = useRef(0);
  voice.say = (text, tone = 'good') => {
    clearTimeout(timer.current);
    setSaid({ text, tone });
    timer.current = setTimeout(() => setSaid(null), 8_000);
  };
  return html`<div class="voice" role="status" aria-live="polite">
    ${said ? html`<p class=${said.tone}>${said.text}</p>` : null}
  </div>`;
}

/**
 * A button that runs an action. It is disabled until the action ends, reports the outcome, and has everything looked up again.
 *
 * @param {{ run: () => Promise<string | void>, children: Children, kind?: 'main' | 'danger' | 'plain' | 'bare', disabled?: boolean }} props
 */
export function Action({ run, children, kind = 'plain', disabled = false }) {
  const [busy, setBusy] = useState(false);
  const press = async () => {
    if (busy) return;
    setBusy(true);
    try {
      const text = await run();
      if (text) voice.say(text);
    } catch (error) {
      voice.say(/** @type {Error} */ (error).message, 'bad');
    }
    refreshAll();
    setBusy(false);
  };
  // With `disabled` the button would lose the focus.
  return html`<button type="button" class=${kind} aria-disabled=${busy || disabled} aria-busy=${busy}
      onClick=${disabled ? undefined : press}>
    ${children}
  </button>`;
}

/**
 * A button that asks before it runs an action.
 *
 * @param {{
 *   run: () => Promise<string | void>, children: Children, title: string, confirm: string, kind?: 'main' | 'danger' | 'plain',
 *   question: Children, type?: string, disabled?: boolean,
 * }} props - `type`: a text that must be typed first
 */
export function Asks({ run, children, title, confirm, kind = 'plain', question, type, disabled = false }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const [open, setOpen] = useState(false);
  const [typed, setTyped] = useState('');
  const id = useId();
  useEffect(() => {
    if (open) dialog.current?.showModal();
  }, [open]);
  const close = () => dialog.current?.close();
  const closed = () => {
    setOpen(false);
    setTyped('');
  };
  const confirmed = async () => {
    const text = await run();
    close();
    return text;
  };
  return html`<button type="button" class=${kind} aria-haspopup="dialog" aria-disabled=${disabled}
        onClick=${disabled ? undefined : () => setOpen(true)}>
      ${children}
    </button>
    ${
      open &&
      html`<dialog ref=${dialog} aria-labelledby=${id} onClose=${closed}>
        <h2 id=${id}>${title}</h2>
        <div class="question">${question}</div>
        ${
          type &&
          html`<label>
            Type <code>${type}</code> to go on
            <input type="text" value=${typed} autocomplete="off" spellcheck=${false}
                onInput=${(/** @type {any} */ event) => setTyped(event.target.value)} />
          </label>`
        }
        <div class="buttons">
          <button type="button" onClick=${close}>Cancel</button>
          <${Action} kind=${kind === 'danger' ? 'danger' : 'main'} run=${confirmed}
              disabled=${type !== undefined && typed !== type}>
            ${confirm}
          <//>
        </div>
      </dialog>`
    }`;
}

/** Milliseconds between the last key and the search. */
const PAUSE = 250;

/**
 * The filter of a list. The address holds it.
 *
 * @param {{
 *   find?: string, fields?: readonly { name: string, title: string, type?: string }[],
 *   choices?: readonly { name: string, title: string, options: readonly (readonly [string, string])[] }[],
 * }} props - `find`: label of a field that searches the shown rows
 */
export function Filters({ find, fields = find ? [{ name: 'find', title: find }] : [], choices = [] }) {
  const { query } = useAddress();
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  /** Typed text that is not searched for yet. */
  const pending = useRef(/** @type {Record<string, string>} */ ({}));
  const search = () => {
    clearTimeout(timer.current);
    const now = Object.fromEntries(new URLSearchParams(location.search));
    refine({ ...now, ...pending.current });
    pending.current = {};
  };
  /** @param {any} event */
  const typed = ({ target: { name, value } }) => {
    pending.current[name] = value;
    clearTimeout(timer.current);
    timer.current = setTimeout(search, PAUSE);
  };
  /** @param {any} event */
  const chosen = ({ target: { name, value } }) => {
    pending.current[name] = value;
    search();
  };
  return html`<div class="filters" role="search">
    ${fields.map(
      ({ name, title, type = 'search' }) => html`<label key=${name} class="search">
        ${title}
        <input type=${type} name=${name} value=${pending.current[name] ?? query[name] ?? ''} autocomplete="off"
            spellcheck=${false} onInput=${typed} />
      </label>`,
    )}
    ${choices.map(
      ({ name, title, options }) => html`<label key=${name}>
        ${title}
        <select name=${name} value=${query[name] ?? ''} onChange=${chosen}>
          <option value="">All</option>
          ${options.map(([value, label]) => html`<option key=${value} value=${value}>${label}</option>`)}
        </select>
      </label>`,
    )}
  </div>`;
}
