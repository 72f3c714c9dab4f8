import { useEffect, useRef, useState } from 'preact/hooks';
import { get } from './api.js';
import { addressOf } from './router.js';

/**
 * Data that stays current: fetched once, and again whenever an event names one of its topics. The old data stays on the
 * screen until the new data has arrived, so that nothing jumps.
 */

/** Milliseconds between two requests for the same data. */
const [PACE, SLOWEST_PACE] = [1_000, 5_000];
/** The share of the time that requests may take: slow ones are repeated less often. */
const SHARE = 1 / 10;
/** Milliseconds between requests while no events arrive. */
const POLL = 10_000;
/** Answers kept, so that going back shows the former data at once. */
const KEPT = 60;

/** @type {Map<string, any>} */
const cache = new Map();
/** @type {Set<(topics: ReadonlySet<string> | null) => void>} */
const readers = new Set();
/** @type {Set<() => void>} */
const watchers = new Set();

/**
 * `polling`: requests succeed but there are no events, for example because too many pages are open.
 *
 * @type {'connecting' | 'live' | 'polling' | 'lost'}
 */
let connection = 'connecting';
/** @type {EventSource | null} */
let stream = null;
let isSignedIn = false;

/**
 * Open the stream of events. It reconnects automatically. A hidden page has none: a browser opens six connections to a service,
 * for all of its pages.
 */
export function connect() {
  isSignedIn = true;
  stream?.close();
  stream = null;
  if (document.hidden) return;
  stream = new EventSource('/api/v1/events');
  stream.onopen = () => {
    const missedSome = connection !== 'connecting';
    become('live');
    if (missedSome) tell(null);
  };
  stream.onerror = () => {
    if (isWithoutEvents()) return;
    become('lost');
    // Find out if requests still succeed.
    tell(null);
  };
  stream.onmessage = (event) => heard(JSON.parse(event.data));
}

export function disconnect() {
  isSignedIn = false;
  stream?.close();
  stream = null;
  cache.clear();
}

const isWithoutEvents = () => connection === 'lost' || connection === 'polling';

setInterval(() => {
  // The icon of a hidden page still shows that something needs a person.
  if (document.hidden) tell(new Set(['overview']));
  else if (isWithoutEvents()) tell(null);
  // A stream that was refused, for example after a restart with another token, does not reconnect automatically.
  if (stream?.readyState === EventSource.CLOSED) connect();
}, POLL);

/** @param {{ topics?: string[] }} event */
const heard = ({ topics = [] }) => tell(new Set(topics));

document.addEventListener('visibilitychange', () => {
  if (isSignedIn) connect();
});

/** @param {ReadonlySet<string> | null} topics - null for all */
function tell(topics) {
  for (const reader of readers) reader(topics);
}

/** @param {typeof connection} next */
function become(next) {
  if (connection === next) return;
  connection = next;
  for (const watcher of watchers) watcher();
}

export function useConnection() {
  const [state, setState] = useState(connection);
  useEffect(() => {
    const watcher = () => setState(connection);
    watchers.add(watcher);
    watcher();
    return () => void watchers.delete(watcher);
  }, []);
  return state;
}

export function refreshAll() {
  tell(null);
}

/**
 * @template T
 * @typedef {object} Live
 * @property {T | null} data - the last answer, which may be of the path before while the new one loads
 * @property {import('./api.js').ApiError | null} error
 * @property {boolean} stale - the data is of the path before
 * @property {() => void} reload
 */

/** @typedef {{ rows: number, pages: number }} Walk - the rows wanted of a list, and the most pages to fetch for them */

/**
 * One answer. Of a list that is answered in pages, `walk` fetches page after page.
 *
 * @template {string} P
 * @param {import('./api.js').Path<P> | null} path - null fetches nothing
 * @param {readonly string[]} [topics] - topics of events after which it is fetched again
 * @param {Walk | null} [walk]
 * @returns {Live<import('./api.js').Answer<P>>}
 */
export function useData(path, topics = [], walk = null) {
  const key = walk === null ? path : `${path} ${walk.rows} ${walk.pages}`;
  const [state, setState] = useState(() => ({
    ...{ path, key },
    data: key === null ? null : (cache.get(key) ?? null),
    error: null,
  }));
  const reload = useRef(() => {});
  const wanted = topics.join();
  useEffect(() => {
    if (path === null || key === null) return;
    if (cache.has(key)) setState({ path, key, data: cache.get(key), error: null });
    const question = questionOf(key, path, walk);
    const leave = question.join((next) =>
      setState((last) => {
        // A search that begins again takes no rows away before it has found as many.
        const isBehind = next.data?.busy && last.path === path && last.data?.data.length > next.data.data.length;
        return isBehind ? last : { path, key, data: next.data ?? last.data, error: next.error };
      }),
    );
    const names = wanted.split(',');
    /** @param {ReadonlySet<string> | null} topics */
    const listener = (topics) => {
      if (topics === null || names.some((name) => topics.has(name))) question.ask();
    };
    reload.current = question.ask;
    readers.add(listener);
    question.ask();
    return () => {
      readers.delete(listener);
      leave();
    };
  }, [key, wanted]);
  return { data: state.data, error: state.error, stale: state.key !== key, reload: () => reload.current() };
}

/** The most rows of one page of the API. */
const MOST = 500;

/**
 * Fetch pages until there are enough rows, or no more. Each covers a bounded part of the store, and may be empty.
 *
 * @template {string} P
 * @param {import('./api.js').Path<P>} path @param {Walk} walk @param {AbortSignal} [signal] @param {(found: any) => void} [show]
 * @returns {Promise<{ data: import('./api.js').Row<P>[], next: string | null, busy: boolean }>}
 */
export async function fetchRows(path, { rows: enough, pages }, signal, show = () => {}) {
  const [base = '', query] = path.split('?');
  const given = Object.fromEntries(new URLSearchParams(query));
  /** @type {any[]} */
  let rows = [];
  let cursor = null;
  for (let asked = 0; asked < pages; asked += 1) {
    const limit = Math.min(MOST, enough - rows.length);
    /** @type {any} */
    const { data, next } = await get(addressOf(base, { limit, ...given, cursor }), signal);
    rows = [...rows, ...data];
    cursor = next;
    if (next === null || rows.length >= enough) break;
    if (data.length > 0) show({ data: rows, next, busy: true });
  }
  return { data: rows, next: cursor, busy: false };
}

/** @typedef {(answer: { data: any, error: any }) => void} OnAnswer */
/** @typedef {{ ask: () => void, join: (onAnswer: OnAnswer) => () => void }} Question */

/** Shared requests by key, since several parts of a page may show the same. @type {Map<string, Question>} */
const questions = new Map();

/** @param {string} key @param {string} path @param {Walk | null} walk @returns {Question} */
function questionOf(key, path, walk) {
  const question = questions.get(key) ?? createQuestion(key, path, walk);
  questions.set(key, question);
  return question;
}

/**
 * Fetches on demand, one request at a time and not more often than the pace.
 *
 * @param {string} key @param {string} path @param {Walk | null} walk
 * @returns {Question}
 */
function createQuestion(key, path, walk) {
  const ending = new AbortController();
  /** @type {Set<OnAnswer>} */
  const listeners = new Set();
  let [asking, again, timer, next] = [false, false, 0, 0];
  const ask = () => {
    if (asking) again = true;
    else if (!timer) timer = setTimeout(read, Math.max(0, next - performance.now()));
  };
  /** @param {{ data: any, error: any }} answer */
  const tellAll = (answer) => {
    for (const listener of listeners) listener(answer);
  };
  const fetched = () =>
    walk === null
      ? get(path, ending.signal)
      : fetchRows(path, walk, ending.signal, (data) => tellAll({ data, error: null }));
  const read = async () => {
    [asking, again, timer] = [true, false, 0];
    const begun = performance.now();
    /** @type {{ data: any, error: any }} */
    const answer = await fetched().then(
      (data) => ({ data, error: null }),
      (error) => ({ data: null, error }),
    );
    asking = false;
    const pause = Math.max(PACE, (performance.now() - begun) / SHARE);
    next = begun + (walk === null ? Math.min(SLOWEST_PACE, pause) : pause);
    if (ending.signal.aborted) return;
    if (answer.error === null) remember(key, answer.data);
    if (isWithoutEvents()) become(answer.error?.status === 0 ? 'lost' : 'polling');
    tellAll(answer);
    if (again) ask();
  };
  /** @param {OnAnswer} onAnswer */
  const join = (onAnswer) => {
    listeners.add(onAnswer);
    return () => {
      listeners.delete(onAnswer);
      if (listeners.size > 0) return;
      ending.abort();
      clearTimeout(timer);
      questions.delete(key);
    };
  };
  return { ask, join };
}

/** @param {string} key @param {any} data */
function remember(key, data) {
  cache.delete(key);
  cache.set(key, data);
  const [oldest] = cache.keys();
  if (cache.size > KEPT && oldest !== undefined) cache.delete(oldest);
}
