import { useEffect, useRef, useState } from 'preact/hooks';
import { get } from './api.js';

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
/** @type {Set<string>} */
const missed = new Set();

/** Open the stream of events. It reconnects automatically. */
export function connect() {
  stream?.close();
  stream = new EventSource('/api/v1/events');
  stream.onopen = () => {
    const missedSome = isWithoutEvents();
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
  stream?.close();
  stream = null;
  cache.clear();
}

const isWithoutEvents = () => connection === 'lost' || connection === 'polling';

setInterval(() => {
  if (isWithoutEvents()) tell(null);
  // A stream that was refused, for example after a restart with another token, does not reconnect automatically.
  if (stream?.readyState === EventSource.CLOSED) connect();
}, POLL);

/** @param {{ topics?: string[] }} event */
function heard({ topics = [] }) {
  if (document.hidden) for (const topic of topics) missed.add(topic);
  else tell(new Set(topics));
}

document.addEventListener('visibilitychange', () => {
  if (document.hidden || missed.size === 0) return;
  tell(new Set(missed));
  missed.clear();
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

/**
 * @param {string | null} path - below /api/v1; null fetches nothing
 * @param {readonly string[]} [topics] - topics of events after which it is fetched again
 * @returns {Live<any>}
 */
export function useData(path, topics = []) {
  const [state, setState] = useState(() => ({
    path,
    data: path === null ? null : (cache.get(path) ?? null),
    error: null,
  }));
  const reload = useRef(() => {});
  const wanted = topics.join();
  useEffect(() => {
    if (path === null) return;
    if (cache.has(path)) setState({ path, data: cache.get(path), error: null });
    const question = questionOf(path);
    const leave = question.join((next) =>
      setState((last) => ({ path, data: next.data ?? last.data, error: next.error })),
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
  }, [path, wanted]);
  return { data: state.data, error: state.error, stale: state.path !== path, reload: () => reload.current() };
}

/** @typedef {(answer: { data: any, error: any }) => void} OnAnswer */
/** @typedef {{ ask: () => void, join: (onAnswer: OnAnswer) => () => void }} Question */

/** Shared requests by path, since several parts of a page may show the same. @type {Map<string, Question>} */
const questions = new Map();

/** @param {string} path @returns {Question} */
function questionOf(path) {
  const question = questions.get(path) ?? createQuestion(path);
  questions.set(path, question);
  return question;
}

/**
 * Fetches on demand, one request at a time and not more often than the pace.
 *
 * @param {string} path
 * @returns {Question}
 */
function createQuestion(path) {
  const ending = new AbortController();
  /** @type {Set<OnAnswer>} */
  const listeners = new Set();
  let [asking, again, timer, next] = [false, false, 0, 0];
  const ask = () => {
    if (asking) again = true;
    else if (!timer) timer = setTimeout(read, Math.max(0, next - performance.now()));
  };
  const read = async () => {
    [asking, again, timer] = [true, false, 0];
    const begun = performance.now();
    /** @type {{ data: any, error: any }} */
    const answer = await get(path, ending.signal).then(
      (data) => ({ data, error: null }),
      (error) => ({ data: null, error }),
    );
    asking = false;
    const pause = (performance.now() - begun) / SHARE;
    next = begun + Math.min(SLOWEST_PACE, Math.max(PACE, pause));
    if (ending.signal.aborted) return;
    if (answer.error === null) remember(path, answer.data);
    if (isWithoutEvents()) become(answer.error?.status === 0 ? 'lost' : 'polling');
    for (const listener of listeners) listener(answer);
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
      questions.delete(path);
    };
  };
  return { ask, join };
}

/** @param {string} path @param {any} data */
function remember(path, data) {
  cache.delete(path);
  cache.set(path, data);
  const [oldest] = cache.keys();
  if (cache.size > KEPT && oldest !== undefined) cache.delete(oldest);
}
