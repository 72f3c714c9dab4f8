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

/** @param {string} path - below /api/v1, with its query @param {AbortSignal} [signal] @returns {Promise<any>} */
export const get = (path, signal) => ask('GET', path, undefined, signal);

/** @param {string} path @param {object} [body] @param {AbortSignal} [signal] @param {number} [patience] @returns {Promise<any>} */
export const post = (path, body = {}, signal, patience) => ask('POST', path, body, signal, patience);

/** @param {string} path @returns {Promise<any>} */
export const remove = (path) => ask('DELETE', path);

/** @param {string} method @param {string} path @param {object} [body] @param {AbortSignal} [signal] @param {number} [patience] */
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
