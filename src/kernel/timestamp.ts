import { DateTime } from 'luxon';

const ISO_8601 = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)(Z|[+-]\d\d(?::?\d\d)?)?)?$/i;

/**
 * Milliseconds since 1970 of ISO 8601 as nearly all clients write it: any form of offset (UTC without one), up to
 * nanoseconds. Null for all else, for days that don't exist, and beyond the years 0 to 9999.
 */
export function isoInstant(value: unknown): number | null {
  if (typeof value !== 'string') return null;
  const usual = usualInstant(value);
  if (usual !== null) return usual;
  const parts = ISO_8601.exec(value);
  if (parts === null) return null;
  const [, date = '', time = '00:00', offset = 'Z'] = parts;
  if (!isInCalendar(date)) return null;
  return inRange(Date.parse(`${date}T${time.replace(',', '.')}${normalOffset(offset)}`));
}

/** A fast path for the form that `toISOString` writes; null for anything else, and for the ends of months. */
function usualInstant(text: string): number | null {
  if (text.length !== 24 || !isUsual(text)) return null;
  const [year, month, day] = [digitsAt(text, 0, 4), digitsAt(text, 5, 7), digitsAt(text, 8, 10)];
  const [hour, minute, second] = [digitsAt(text, 11, 13), digitsAt(text, 14, 16), digitsAt(text, 17, 19)];
  if (year < 100 || month < 1 || month > 12 || day < 1 || day > 28 || hour > 23 || minute > 59 || second > 59)
    return null;
  const midnight = Date.UTC(year, month - 1, day);
  return midnight + ((hour * 60 + minute) * 60 + second) * 1000 + digitsAt(text, 20, 23);
}

const PATTERN = '0000-00-00T00:00:00.000Z';
const isDigit = (code: number) => code >= 0x30 && code <= 0x39;

function isUsual(text: string): boolean {
  for (let at = 0; at < PATTERN.length; at += 1) {
    const code = text.charCodeAt(at);
    const wanted = PATTERN.charCodeAt(at);
    if (isDigit(wanted) ? !isDigit(code) : code !== wanted) return false;
  }
  return true;
}

function digitsAt(text: string, start: number, end: number): number {
  let number = 0;
  for (let at = start; at < end; at += 1) number = number * 10 + text.charCodeAt(at) - 0x30;
  return number;
}

/** Longer than any written time; the parsers below are not made for long text. */
const LONGEST = 100;

/**
 * Like `isoInstant`, for other formats that have one meaning. They are epoch seconds and milliseconds as number or
 * text, ISO 8601 in its basic, week and ordinal forms, single digits, leap seconds, RFC 2822, and a `Date` as text.
 * Null if a guess would be needed.
 */
export function otherInstant(value: unknown): number | null {
  if (typeof value === 'number') return epochInstant(value);
  if (typeof value !== 'string' || value.length > LONGEST) return null;
  const text = value.trim();
  if (EPOCH.test(text)) return epochInstant(Number(text));
  return leapInstant(text) ?? writtenInstant(text);
}

/** Reads all formats of `isoInstant` and `otherInstant`. */
export function instant(value: unknown): number | null {
  return isoInstant(value) ?? otherInstant(value);
}

/** Eight digits are a day, fourteen may be a day with a time. */
const EPOCH = /^\d{9,13}(\.\d+)?$/;

/**
 * Seconds from 1973 to 2286, or milliseconds of the same years. In the other unit, either would lie in the first weeks
 * after 1970, or thousands of years ahead. Numbers in between, and small ones, could be both.
 */
function epochInstant(value: number): number | null {
  if (value >= 1e8 && value < 1e10) return Math.floor(value * 1_000);
  return value >= 1e11 && value < 1e13 ? Math.floor(value) : null;
}

const LEAP_SECOND = /([T ]\d\d:?59:?)60(?!\d)/i;
const AFTER_LEAP_SECOND = /^\d{4}-(?:01|07)-01T00:00:00/;

/** A leap second ends June or December. Like all clocks of computers, we treat it as the second after it. */
function leapInstant(text: string): number | null {
  if (!LEAP_SECOND.test(text)) return null;
  const before = text.replace(LEAP_SECOND, '$159');
  const at = isoInstant(before) ?? writtenInstant(before);
  if (at === null) return null;
  const next = inRange(at + 1_000);
  return next !== null && AFTER_LEAP_SECOND.test(new Date(next).toISOString()) ? next : null;
}

const LOOSE =
  /^(\d{4})-(\d\d?)-(\d\d?)(?:(?:T| +)(\d\d?):(\d\d?)(?::(\d\d?)([.,]\d+)?)? *(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?)?$/i;
const BASIC = /^\d{8}(?:T|$)|^\d{4}-?W\d\d|^\d{4}-\d{3}(?:T|$)/i;
const DATE_AS_TEXT = /^(\w{3}) (\w{3}) (\d\d) (\d{4}) (\d\d:\d\d:\d\d) (?:GMT|UTC)([+-]\d{4})(?: \(.*\))?$/;

function writtenInstant(text: string): number | null {
  const loose = LOOSE.exec(text);
  if (loose) return isoInstant(padded(loose));
  const parsed = BASIC.test(text)
    ? DateTime.fromISO(text.toUpperCase(), { zone: 'utc' })
    : DateTime.fromRFC2822(text.replace(DATE_AS_TEXT, '$1, $3 $2 $4 $5 $6'), { zone: 'utc' });
  return parsed.isValid ? inRange(parsed.toMillis()) : null;
}

function padded([, year, month, day, hour, minute = '', second = '0', fraction = '', zone = 'Z']: RegExpExecArray) {
  const two = (digits: string | undefined) => digits?.padStart(2, '0');
  const date = `${year}-${two(month)}-${two(day)}`;
  if (hour === undefined) return date;
  return `${date}T${two(hour)}:${two(minute)}:${two(second)}${fraction}${/^(UTC|GMT)$/i.test(zone) ? 'Z' : zone}`;
}

/** `+01`, `+0100` and `+01:00` are the same. */
function normalOffset(offset: string): string {
  if (offset.length === 1) return 'Z';
  return `${offset.slice(0, 3)}:${offset.slice(3).replace(':', '') || '00'}`;
}

/** Date.parse turns 30 February into 2 March. */
function isInCalendar(text: string): boolean {
  const day = text.slice(8, 10);
  return day <= '28' || new Date(Date.parse(`${text.slice(0, 10)}T00:00:00Z`)).getUTCDate() === Number(day);
}

/** Null unless the year has four digits. */
function inRange(time: number): number | null {
  return time >= -62_167_219_200_000 && time <= 253_402_300_799_999 ? Math.trunc(time) : null;
}

/** Clocks that say an earlier time were never set. */
export const UNSET_CLOCK = Date.UTC(1973, 0);

/** `receivedAt − (sentAt − given)`, or `given` if `sentAt` is unknown or the result is out of range. */
export function correctedTime(receivedAt: number, given: number, sentAt: number | null): number {
  return (sentAt === null ? null : inRange(receivedAt - (sentAt - given))) ?? given;
}

/** Cached text that the times of one second share, by the last bits of that second. */
const SECONDS = 16;
const seconds = new Array<number>(SECONDS).fill(Number.NaN);
const prefixes = new Array<string>(SECONDS).fill('');

/** Like `toISOString`, which costs as much as half a message: times of one batch mostly share a few seconds. */
export function isoTime(time: number): string {
  const start = Math.floor(time / 1000);
  const place = start & (SECONDS - 1);
  if (start !== seconds[place]) {
    seconds[place] = start;
    prefixes[place] = new Date(start * 1000).toISOString().slice(0, -4);
  }
  return `${prefixes[place]}${String(time - start * 1000).padStart(3, '0')}Z`;
}

export const dayOf = (at: number) => new Date(at).toISOString().slice(0, 10);
