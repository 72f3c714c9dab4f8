import { useEffect, useState } from 'preact/hooks';
import { PAGES } from './lists.js';

/** The address alone decides the view, so every view can be linked to and gone back to. */

/** @type {Set<() => void>} */
const listeners = new Set();
/** Milliseconds after scrolling before the position is saved, for going back. */
const KEEP_SCROLL = 200;

history.scrollRestoration = 'manual';

/** @param {string} url @param {{ replace?: boolean }} [options] - `replace` for a change of the same view, such as a filter */
export function navigate(url, { replace = false } = {}) {
  if (replace) history.replaceState(history.state, '', url);
  else {
    history.replaceState({ scroll: scrollY }, '');
    history.pushState({ scroll: 0 }, '', url);
    scrollTo(0, 0);
  }
  for (const listener of listeners) listener();
}

addEventListener('popstate', () => {
  for (const listener of listeners) listener();
  const scroll = history.state?.scroll ?? 0;
  // Scroll after the kept data is drawn again.
  requestAnimationFrame(() => scrollTo(0, scroll));
});

let timer = 0;
addEventListener('scroll', () => {
  clearTimeout(timer);
  timer = setTimeout(() => history.replaceState({ ...history.state, scroll: scrollY }, ''), KEEP_SCROLL);
});

/** First parts of the paths of these pages. Other links, such as the API's description, are left to the browser. */
const ROOTS = new Set(PAGES.map(({ path }) => path.split('/')[1]));

addEventListener('click', (event) => {
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  const href = link?.getAttribute('href');
  if (!link || !href || event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || link.hasAttribute('target')) return;
  const url = new URL(href, location.href);
  if (url.origin !== location.origin || url.hash || !ROOTS.has(url.pathname.split('/')[1])) return;
  event.preventDefault();
  navigate(url.pathname + url.search);
});

export function useAddress() {
  const [address, setAddress] = useState(current);
  useEffect(() => {
    const listener = () => setAddress(current());
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
  return address;
}

function current() {
  return { path: location.pathname, query: Object.fromEntries(new URLSearchParams(location.search)) };
}

/**
 * Show the same page with another query. Empty fields are left out.
 *
 * @param {Record<string, string | undefined>} query
 */
export function refine(query) {
  navigate(addressOf(location.pathname, query), { replace: true });
}

/** An address, of which the types know the path. @template {string} P @typedef {string & { path?: P }} Address */

/**
 * An address of a page or of the API. Values take the places of their names in braces; the others are the query, without
 * empty ones.
 *
 * @template {string} P
 * @param {P} path @param {Record<string, string | number | boolean | null | undefined>} values @returns {Address<P>}
 */
export function addressOf(path, values) {
  const query = new URLSearchParams();
  /** @type {string} */
  let filled = path;
  for (const [name, value] of Object.entries(values)) {
    const bare = filled.replace(`{${name}}`, () => encodeURIComponent(String(value)));
    if (bare === filled && value !== undefined && value !== null && value !== '') query.append(name, String(value));
    filled = bare;
  }
  return /** @type {Address<P>} */ (query.size === 0 ? filled : `${filled}?${query}`);
}
