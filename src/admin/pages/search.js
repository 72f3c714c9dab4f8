import { useState } from 'preact/hooks';
import { number } from './format.js';
import { html } from './html.js';
import { useData } from './live.js';
import { addressOf } from './router.js';
import { Empty, Problem, Waiting } from './ui.js';

/** Pages that one search fetches before it waits for a person. Each covers a bounded part of the store. */
const PATIENCE = 40;
/** Rows that are shown at first. */
const ROWS = 50;

/**
 * Every row of a list that is as long as the configuration.
 *
 * @template {string} P
 * @param {import('./api.js').Path<P>} path @param {readonly string[]} topics
 * @returns {import('./live.js').Live<import('./api.js').Answer<P>>}
 */
export const useAll = (path, topics) => useData(path, topics, { rows: Number.POSITIVE_INFINITY, pages: PATIENCE });

/**
 * The first rows of a list that is answered in pages.
 *
 * @template {string} P
 * @param {P} path @param {Record<string, any>} query @param {number} enough @param {readonly string[]} [topics]
 * @returns {List<import('./api.js').Row<P>>}
 *   - `rows`: null until the first answer; `more`: goes on; null if there are no more, or while it searches
 */
export function useRows(path, query, enough, topics) {
  const address = addressOf(path, query);
  const [asked, setAsked] = useState({ address, times: 1 });
  const times = asked.address === address ? asked.times : 1;
  /** @type {import('./live.js').Live<any>} */
  const { data, stale, ...live } = useData(address, topics, { rows: enough * times, pages: PATIENCE * times });
  const busy = live.error === null && (data === null || data.busy || stale);
  const more = data?.next != null && !busy ? () => setAsked({ address, times: times + 1 }) : null;
  return { ...live, rows: data?.data ?? null, busy, stale, more };
}

/**
 * @template [R=any]
 * @typedef {{ rows: R[] | null, busy: boolean, stale: boolean, error: any, more: (() => void) | null, reload: () => void }} List
 */

/**
 * A list that is answered in pages.
 *
 * @param {{
 *   path: string, query?: Record<string, any>, enough?: number, topics?: readonly string[], waiting?: number,
 *   none: any, children: (rows: any[]) => any,
 * }} props - `none`: shown if the list is empty
 */
export function Pages({ path, query = {}, enough = ROWS, topics, waiting, none, children }) {
  const list = useRows(path, query, enough, topics);
  const { rows, stale } = list;
  return html`${
    rows !== null &&
    rows.length > 0 &&
    html`<div class=${stale ? 'stale' : ''} aria-busy=${stale}>
      ${children(rows)}
    </div>`
  }
    <${Rest} ...${{ list, enough, waiting, none }} />`;
}

/**
 * The end of a list. It says that there is nothing only once everything was searched.
 *
 * @param {{ list: List, found?: number, enough?: number, waiting?: number, none: any }} props - `found`: rows that are shown
 */
export function Rest({
  list: { rows, busy, error, more, reload },
  found = rows?.length ?? 0,
  enough = ROWS,
  waiting,
  none,
}) {
  const isFull = found >= enough;
  return html`${error ? html`<${Problem} error=${error} retry=${reload} />` : null}
    ${rows === null ? !error && html`<${Waiting} rows=${waiting} />` : null}
    ${rows !== null && found === 0 && !busy && !more && !error && (typeof none === 'string' ? html`<${Empty} title=${none} />` : none)}
    <div class="more" role="status">
      ${isFull && html`<span>${number(found)} shown</span>`}
      ${rows !== null && busy && html`<span>Looking further back…</span>`}
      ${found === 0 && more && html`<span>Nothing so far.</span>`}
      ${more && html`<button type="button" onClick=${more}>${isFull ? 'Show more' : 'Look further back'}</button>`}
    </div>`;
}
