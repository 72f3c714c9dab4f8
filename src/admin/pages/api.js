/** An error answer of the management API, or the reason for having no answer. */
export class ApiError extends Error {
  /** @param {number} status - 0 without an answer @param {string} code @param {string} message */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const HOME = '/api/v1';
const PATIENCE = 20_000;

/** @type {Set<() => void>} */
const strangers = new Set();

/** Call `listener` whenever the service requires a sign-in. @param {() => void} listener */
export function onUnauthorized(listener) {
  strangers.add(listener);
  return () => void strangers.delete(listener);
}

/**
 * The answer to a request, by the path of the OpenAPI document.
 *
 * @template {string} P
 * @template {string} [M='GET']
 * @typedef {P extends `${infer Base}?${string}` ? Answer<Base, M> : `${M} ${P}` extends keyof Answers ? Answers[`${M} ${P}`] : any} Answer
 */
/** @typedef {import('./answers.js').components['schemas']} Answers */
/** A row of a list. @template {string} P @typedef {Answer<P>['data'][number]} Row */
/** Below /api/v1, with its query. @template {string} P @typedef {P | import('./router.js').Address<P>} Path */

/** @template {string} P @param {Path<P>} path @param {AbortSignal} [signal] @returns {Promise<Answer<P>>} */
export const get = (path, signal) => ask('GET', path, undefined, signal);

/**
 * @template {string} P
 * @param {Path<P>} path @param {object} [body] @param {AbortSignal} [signal] @param {number} [patience]
 * @returns {Promise<Answer<P, 'POST'>>}
 */
export const post = (path, body = {}, signal, patience) => ask('POST', path, body, signal, patience);

/** @param {string} path @returns {Promise<any>} */
export const remove = (path) => ask('DELETE', path);

/**
 * @param {string} method @param {string} path @param {object} [body] @param {AbortSignal} [signal] @param {number} [patience]
 * @returns {Promise<any>}
 */
async function ask(method, path, body, signal, patience = PATIENCE) {
  const headers = { accept: 'application/json', ...(body ? { 'content-type': 'application/json' } : {}) };
  const signals = [AbortSignal.timeout(patience), ...(signal ? [signal] : [])];
  /** @type {Response} */
  let response;
  try {
    response = await fetch(HOME + path, {
      method,
      headers,
      signal: AbortSignal.any(signals),
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, 'offline', 'Rollcall does not answer.');
  }
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  if (response.status === 401 && path !== '/session') for (const listener of strangers) listener();
  throw new ApiError(response.status, answer.code ?? 'unknown', answer.message ?? `The answer was ${response.status}.`);
}
