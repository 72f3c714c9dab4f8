import { useEffect, useState } from 'preact/hooks';
import { get } from './api.js';
import { number } from './format.js';
import { html } from './html.js';
import { addressOf } from './router.js';
import { Empty, Problem, Waiting } from './ui.js';

/** Pages that one search fetches before it waits for a person. Each covers a bounded part of the store. */
const PATIENCE = 40;

/**
 * @typedef {object} Search
 * @property {any[] | null} rows - null until the first answer
 * @property {boolean} busy
 * @property {any} error
 * @property {(() => void) | null} more - continues the search; null if there is nothing more
 * @property {() => void} again
 */

/**
 * Fetch page after page until there are enough rows, or no more.
 *
 * @param {string} path @param {Record<string, any>} query @param {number} enough
 * @returns {Search}
 */
export function useSearch(path, query, enough) {
  const address = addressOf(path, { ...query, limit: enough });
  const [state, setState] = useState(/** @type {any} */ ({ rows: null, next: null, busy: true, error: null }));
  const [start, setStart] = useState({ address, from: /** @type {any} */ (null) });
  const from = start.address === address ? start.from : null;
  useEffect(() => {
    const ending = new AbortController();
    /** @param {any} next */
    const show = (next) => ending.signal.aborted || setState(next);
    const go = async () => {
      let rows = from?.rows ?? [];
      let cursor = from?.next ?? null;
      const wanted = rows.length + enough;
      show((/** @type {any} */ last) => ({ ...last, busy: true, error: null }));
      for (let asked = 0; asked < PATIENCE; asked += 1) {
        const { data, next } = await get(addressOf(path, { ...query, limit: enough, cursor }), ending.signal);
        rows = [...rows, ...data];
        cursor = next;
        if (next === null || rows.length >= wanted) break;
        if (data.length > 0) show({ rows, next, busy: true, error: null });
      }
      show({ rows, next: cursor, busy: false, error: null });
    };
    go().catch((error) => show((/** @type {any} */ last) => ({ ...last, busy: false, error })));
    return () => ending.abort();
  }, [address, start]);
  return {
    ...state,
    more: state.next !== null && !state.busy ? () => setStart({ address, from: state }) : null,
    again: () => setStart({ address, from: null }),
  };
}

/** Rows of a page of people. */
const PEOPLE = 100;

/**
 * A list that is fetched page by page.
 *
 * @param {{ path: string, none: string, children: (rows: any[]) => any }} props - `none`: shown if the list is empty
 */
export function Pages({ path, none, children }) {
  const { rows, busy, error, more, again } = useSearch(path, {}, PEOPLE);
  return html`${error ? html`<${Problem} error=${error} retry=${again} />` : null}
    ${rows === null ? !error && html`<${Waiting} rows=${3} />` : rows.length > 0 ? children(rows) : !busy && html`<${Empty} title=${none} />`}
    ${rows !== null && (more || rows.length > PEOPLE) && html`<div class="more" role="status"><span>${number(rows.length)} shown</span>${more && html`<button type="button" onClick=${more}>Show more</button>`}</div>`}`;
}
