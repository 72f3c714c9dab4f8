import { resolve } from 'node:path';
import { InvalidArgumentError, Option } from 'commander';
import ms from 'ms';
import type { Config } from '../config/config.ts';
import { isSetEmpty } from '../config/variables.ts';
import { systemClock } from '../kernel/clock.ts';
import { isoInstant } from '../kernel/timestamp.ts';

const DEFAULT_CONFIG = 'rollcall.yaml';

export const configOption = () =>
  orVariable(new Option('-c, --config <file>', 'configuration file').default(DEFAULT_CONFIG), 'ROLLCALL_CONFIG');

/** An option with an environment variable as its default. An empty variable counts as not set. */
export function orVariable(option: Option, variable: string): Option {
  return isSetEmpty(variable) ? option : option.env(variable);
}

export function hint({ config }: { readonly config: string }, command: string): string {
  if (config === DEFAULT_CONFIG) return `rollcall ${command}`;
  return `rollcall ${command} -c ${inShell(config)}`;
}

export function inShell(word: string): string {
  return /^[\w./:@%+=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

export const jsonOption = () => new Option('--json', 'print one JSON object per line; logs stay on stderr');

export const newStoreOption = () =>
  new Option('--new-store', 'begin with an empty store, although the former one was lost or moved');

export const tokenOption = () =>
  orVariable(new Option('--token <token>', 'admin token; that of the configuration unless given'), 'ROLLCALL_TOKEN');

export const tokenFileOption = () =>
  new Option(
    '--token-file <path>',
    'file of the admin token, if the configuration has none; admin.tokenFile unless given',
  );

/** The configuration with the token file that an option names, relative to the working directory. */
export function withTokenFile(config: Config, tokenFile: string | undefined): Config {
  return tokenFile === undefined ? config : { ...config, admin: { ...config.admin, tokenFile: resolve(tokenFile) } };
}

export const nowOption = () =>
  new Option('--now <time>', 'as of this time ($now in the SQL), such as 1998-03-01').argParser(instantOption);

export function wholeNumber(minimum: number, maximum = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= minimum && value <= maximum) return value;
    const bound = maximum === Number.MAX_SAFE_INTEGER ? 'on' : `to ${maximum}`;
    throw new InvalidArgumentError(`It must be a whole number from ${minimum} ${bound}.`);
  };
}

/** Milliseconds of `250ms`, `6s`, `2h`, `30d`. */
export function milliseconds(text: string): number {
  if (/^\d+(ms|s|m|h|d|w)$/.test(text)) return ms(text as ms.StringValue);
  throw new InvalidArgumentError('It must be a number with a unit: ms, s, m, h, d or w, such as 6s.');
}

const SPAN = /^(\d+(?:\.\d+)? ?(?:s|sec|m|min|h|d|w|(?:second|minute|hour|day|week)s?))(?: ago)?$/i;
const DAY = 24 * 60 * 60_000;

/**
 * Milliseconds since 1970 of an ISO 8601 date or date-time, in UTC unless it has an offset; of `2 days` ago; or of the beginning of
 * today or yesterday, in UTC.
 */
export function instantOption(text: string, _previous?: unknown, now = systemClock.now()): number {
  const today = now - (now % DAY);
  if (text === 'now') return now;
  if (text === 'today') return today;
  if (text === 'yesterday') return today - DAY;
  const [, span] = SPAN.exec(text) ?? [];
  const time = span === undefined ? isoInstant(text) : now - ms(span as ms.StringValue);
  if (time !== null) return time;
  throw new InvalidArgumentError(
    'It must be an ISO 8601 date or date-time, such as 1998-03-01T00:00:00Z, or 2 days, today or yesterday.',
  );
}

export function collect(value: string, previous: readonly string[] = []): readonly string[] {
  return [...previous, notEmpty(value)];
}

/** The default parser of options and arguments. An empty text is probably a variable that a script has not set. */
export function notEmpty(text: string): string {
  if (text === '') throw new InvalidArgumentError('It must not be empty.');
  return text;
}

/** Parser of a place in a list. An empty one is the beginning. */
export const placeOption = (text: string): string => text;
