const numbers = new Intl.NumberFormat('en');
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const days = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' });
const minutes = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
});
const seconds = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** @param {number | null | undefined} value */
export const number = (value) => (value == null ? '–' : numbers.format(value));

/** The most names that are listed in place. */
export const FEW = 12;

/** Names in a sentence, each between marks that keep its direction apart. @param {readonly string[]} names */
export const few = (names) => {
  const first = names.slice(0, FEW).map((name) => `\u2068${name}\u2069`);
  return `${first.join(', ')}${names.length > FEW ? ` and ${number(names.length - FEW)} more` : ''}`;
};

/** A short form for axes and small spaces: 12.3K. @param {number} value */
export const short = (value) => compact.format(value);

/** @param {number} count @param {string} one @param {string} [many] */
export const count = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/** @param {number} value - between 0 and 1 */
export function percent(value) {
  // Round down: never "100 %" if something failed.
  const cut = Math.floor(value * 1_000) / 10;
  return `${cut === 100 || cut === 0 ? cut : cut.toFixed(1)} %`;
}

/** @param {number | null | undefined} ms */
export function duration(ms) {
  if (ms == null) return '–';
  if (ms === 0) return '0 ms';
  if (ms < 1) return '< 1 ms';
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < 10 * SECOND) return `${(ms / SECOND).toFixed(1)} s`;
  if (ms < 2 * MINUTE) return `${Math.round(ms / SECOND)} s`;
  if (ms < 2 * HOUR) return `${Math.round(ms / MINUTE)} min`;
  return ms < 2 * DAY ? `${Math.round(ms / HOUR)} h` : `${Math.round(ms / DAY)} days`;
}

/** @param {number} at @param {number} now */
export function distance(at, now) {
  const ms = Math.abs(now - at);
  if (ms < 5 * SECOND) return at > now ? 'now' : 'just now';
  const far = ms < 10 * SECOND ? `${Math.round(ms / SECOND)} s` : duration(ms);
  return at > now ? `in ${far}` : `${far} ago`;
}

/** A time in the reader's time zone, with the day unless it is today. @param {number} at @param {number} now */
export function moment(at, now) {
  if (Math.abs(now - at) > 300 * DAY) return days.format(at);
  return days.format(at) === days.format(now) ? seconds.format(at) : minutes.format(at);
}

const full = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'long' });
export const ZONE = full.resolvedOptions().timeZone;

/** A whole time with its zone. @param {number} at */
export const zoned = (at) => full.format(at);

/** @param {number | null} bytes */
export function bytes(bytes) {
  if (bytes === null) return '–';
  if (bytes < 1_024) return `${bytes} B`;
  return bytes < 1_024 ** 2 ? `${(bytes / 1_024).toFixed(1)} KB` : `${(bytes / 1_024 ** 2).toFixed(1)} MB`;
}

/**
 * The configuration's notes on an audience or destination, as facts.
 *
 * @param {{ description?: string, owner?: string, labels?: Record<string, string> }} about
 * @returns {[string, string][]}
 */
export function notesOf({ description, owner, labels = {} }) {
  return [
    ...(description ? [/** @type {[string, string]} */ (['What it is for', description])] : []),
    ...(owner ? [/** @type {[string, string]} */ (['Owner', owner])] : []),
    ...Object.entries(labels),
  ];
}
