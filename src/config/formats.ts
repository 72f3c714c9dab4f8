import ipaddr from 'ipaddr.js';
import ms from 'ms';
import cron from 'node-cron';
import * as z from 'zod';
import { RESERVED_HEADERS } from '../destination.ts';

/*
 * Each format has a title, shown as its type in docs/configuration.md and in editors, and an example if the type says too
 * little.
 */

/** An example of a value that comes from the environment. */
export const variable = (name: string) => `\${${name}}`;

/** A value or a list of such values. */
export const oneOrMore = <T extends z.ZodType>(item: T, error: string) =>
  z
    .union([item, z.array(item).min(1, error)], error)
    .transform((value) => (Array.isArray(value) ? value : [value]))
    .meta({ title: `${item.meta()?.title}, or a list` });

/** A whole number, also as text, since values from the environment are text. */
export function whole(minimum: number, maximum = Number.MAX_SAFE_INTEGER) {
  const bound = maximum === Number.MAX_SAFE_INTEGER ? 'on' : `to ${maximum}`;
  const error = `must be a whole number from ${minimum} ${bound}`;
  const number = z.int(error).min(minimum, error).max(maximum, error);
  const title = `whole number from ${minimum}${maximum === Number.MAX_SAFE_INTEGER ? '' : ` to ${maximum}`}`;
  return z.union([number, z.string().regex(/^\d+$/, error).transform(Number).pipe(number)], error).meta({ title });
}

/** A switch, also as the text `true` or `false`. */
export const flag = z
  .union([z.boolean(), z.enum(['true', 'false'])], 'must be true or false')
  .transform((value) => value === true || value === 'true')
  .meta({ title: 'true or false' });

export const text = z
  .string()
  .refine((value) => value.trim() !== '', 'must not be empty')
  .meta({ title: 'text' });

/** A name that people type and read. The colon is reserved for names that Rollcall makes. */
export const label = z
  .string()
  .regex(/^[\p{L}\p{N}][\p{L}\p{N} ._-]{0,99}$/u, 'must be 1 to 100 letters, digits, spaces, dots, _ or -')
  .meta({ title: 'name' });

/** Secrets are never shown, so the message does not repeat the value. */
const notEmpty = (fault: string) => z.string().min(1, fault);
const asSecret = { title: 'secret', examples: [variable('SECRET')] };

/** Sent in a header, which can't carry line breaks, nor reliably anything but ASCII. */
export const bearerToken = notEmpty('must not be empty. Set its variable')
  .regex(/^[\x21-\x7e]*$/, 'must be ASCII without spaces, as a header carries it. Is there a line break at its end?')
  // Not `min`: the JSON Schema of editors sees the variable that stands for it.
  .refine((token) => token.length >= 16, 'must have at least 16 characters. Make one with: openssl rand -hex 32')
  .meta(asSecret);

/** The user name of Basic credentials, which is UTF-8 and ends at the first colon. */
export const writeKey = notEmpty('must not be empty')
  .regex(/^[^:]*$/, 'must not have a colon: clients send it as the user name of Basic credentials, which ends there')
  .regex(/^[^\p{Cc}\p{Cs}]*$/u, 'must not have control characters. Is there a line break at its end?')
  .meta({ title: 'secret', examples: [variable('SHOP_WRITE_KEY')] });

export const signingSecret = notEmpty(
  'must not be empty: anyone could sign with it. Leave it out to go without a secret, or set its variable',
).meta(asSecret);

export const httpUrl = z
  .string()
  .superRefine((value, context) => {
    const fault = urlFault(value, ['http:', 'https:']);
    if (fault) context.addIssue(fault);
  })
  .meta({ title: 'URL' });

/** The address of a service whose credentials are settings of their own: errors show it. */
export const serverUrl = httpUrl.refine((value) => {
  const { username, password, search } = URL.parse(value) ?? {};
  return !username && !password && !search;
}, 'must have no user, password or query');

export const storeUrl = z
  .string()
  .superRefine((value, context) => {
    // Two slashes could mean a host, or a path from the root.
    if (/^sqlite:(?!\/\/[^/])./.test(value)) return;
    const fault = /^postgres(ql)?:/i.test(value)
      ? postgresFault(value)
      : 'must be sqlite:PATH (such as sqlite:./rollcall.db) or postgres://USER:PASSWORD@HOST/DB';
    if (fault) context.addIssue(fault);
  })
  .meta({ title: 'URL', examples: ['postgres://rollcall@db/rollcall'] });

export const postgresUrl = z
  .string()
  .superRefine((value, context) => {
    const fault = postgresFault(value);
    if (fault) context.addIssue(fault);
  })
  .meta({ title: 'URL', examples: [variable('WAREHOUSE_URL')] });

export const mysqlUrl = z
  .string()
  .superRefine((value, context) => {
    if (urlFault(value, ['mysql:', 'mariadb:'])) context.addIssue('must be mysql://USER:PASSWORD@HOST:3306/DATABASE');
  })
  .meta({ title: 'URL', examples: [variable('SHOP_URL')] });

export const clickhouseUrl = z
  .string()
  .superRefine((value, context) => {
    if (!urlFault(value, ['http:', 'https:'])) return;
    context.addIssue('must be https://USER:PASSWORD@HOST:8443/DATABASE, or http://…:8123: its HTTP interface');
  })
  .meta({ title: 'URL', examples: [variable('CLICKHOUSE_URL')] });

export const trinoUrl = z
  .string()
  .superRefine((value, context) => {
    if (urlFault(value, ['http:', 'https:'])) {
      context.addIssue('must be https://USER:PASSWORD@HOST/CATALOG/SCHEMA, or http://USER@HOST:8080/CATALOG/SCHEMA');
    } else if (value.startsWith('http:') && new URL(value).password !== '') {
      context.addIssue('has a password, which Trino takes over https only');
    }
  })
  .meta({ title: 'URL', examples: [variable('TRINO_URL')] });

export const range = z
  .string()
  .refine(
    (value) => ipaddr.isValidCIDR(value) || ipaddr.isValid(value),
    'must be a range such as 10.0.0.0/8 or an address',
  )
  .meta({ title: 'address or range' });

/** About a hundred years. Longer durations are mistakes, and could exceed the range of dates. */
const LONGEST = ms('36500d');

/** Text of this form. A bare number lacks a unit, with or without quotes. */
const withUnit = (form: RegExp, example: string, fault: string) =>
  z
    .string({
      error: ({ input }) => (typeof input === 'number' ? `must be text such as ${example}, not a number` : undefined),
    })
    .regex(form, fault);

export const duration = withUnit(
  /^\d+ ?(ms|s|m|h|d|w|(second|minute|hour|day|week)s?)$/,
  '200ms or 30d',
  'must be a number with a unit: ms, s, m, h, d or w, such as 30d or 30 days',
)
  .transform((value) => ms(value as ms.StringValue))
  .refine((value) => value <= LONGEST, 'must be at most 36500 days')
  .meta({ title: 'duration' });

const BYTES = { kb: 1e3, mb: 1e6, gb: 1e9, tb: 1e12 };

/** Disk space in bytes. */
export const size = withUnit(/^\d{1,9}(\.\d+)? ?(KB|MB|GB|TB)$/i, '500MB', 'must be a size such as 500MB, 10GB or 2TB')
  .transform((value) => {
    const unit = value.slice(-2).toLowerCase() as keyof typeof BYTES;
    return Math.round(Number.parseFloat(value) * BYTES[unit]);
  })
  .meta({ title: 'size' });

/** A number above zero. */
export const positive = <T extends z.ZodType<number>>(value: T, error: string) =>
  value.refine((milliseconds) => milliseconds > 0, error);

/** The key of a trait. Includes marks, since many scripts write vowels with them. */
export const traitKey = z
  .string()
  // `__proto__` is special in JavaScript, and bodies never contain it.
  .regex(/^(?!__proto__$)[\p{L}\p{N}\p{M}_-]{1,100}$/u, 'must be 1 to 100 letters, digits, _ or -')
  .meta({ title: 'key', examples: ['big_spenders'] });

const SECONDS = { s: 1, m: 60, h: 3600 };

/** Starts per second. */
export const rate = withUnit(/^[1-9]\d{0,8}\/[smh]$/, '100/s', 'must be a number per s, m or h, such as 100/s')
  .transform((value) => {
    const [count, unit] = value.split('/') as [string, keyof typeof SECONDS];
    return Number(count) / SECONDS[unit];
  })
  .meta({ title: 'rate', examples: ['100/s'] });

const THRESHOLD = 'must be a count, such as 500, or a percentage, such as 20%';

/** A count, or a percentage of the members before the run. */
export type Threshold = { readonly count: number } | { readonly percent: number };

export const threshold = z
  .union([z.int(THRESHOLD).min(0, THRESHOLD), z.string().regex(/^\d+$|^\d+(\.\d+)?%$/, THRESHOLD)], THRESHOLD)
  .transform((value): Threshold => {
    const amount = Number.parseFloat(String(value));
    return String(value).endsWith('%') ? { percent: amount } : { count: amount };
  })
  .meta({ title: 'count or percentage', examples: ['20%'] });

/** The greatest value of each field, last field first. */
const CRON_FIELDS = [
  ['weekday', 7],
  ['month', 12],
  ['day', 31],
  ['hour', 23],
  ['minute', 59],
  ['second', 59],
] as const;

/** Finds steps too large for their field, which node-cron accepts silently: `*\/99` would be once an hour. */
function* widestSteps(expression: string): Iterable<string> {
  const fields = expression.trim().split(/\s+/).toReversed();
  for (const [index, [name, greatest]] of CRON_FIELDS.entries()) {
    for (const [, step = ''] of (fields[index] ?? '').matchAll(/\/(\d+)/g)) {
      if (Number(step) > greatest) yield `a ${name} has no step of ${step}`;
    }
  }
}

const NICKNAMES: Readonly<Record<string, string>> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
};

/** Longer than every minute of an hour and day of a year, each by its number. */
const LONGEST_SCHEDULE = 1_000;

export const schedule = z
  .string()
  .transform((value) => (Object.hasOwn(NICKNAMES, value) ? NICKNAMES[value] : value) ?? value)
  .superRefine((value, context) => {
    if (value.length > LONGEST_SCHEDULE) return context.addIssue(`must have at most ${LONGEST_SCHEDULE} characters`);
    const { errors, fields } = cron.validateDetailed(value);
    const reasons = [...errors.map(({ message }) => message), ...widestSteps(value)];
    if (reasons.length === 0) {
      const [day, , weekday] = value.trim().split(/\s+/).slice(-3);
      const isTwofold = (fields?.dayOfMonth.length ?? 0) < 31 && (fields?.dayOfWeek.length ?? 0) < 7;
      if (isTwofold)
        context.addIssue(
          `can be read in two ways: on each day ${day} of a month and each weekday ${weekday}, as crontab(5) does, or only on a day that is both. Make one of the two fields *`,
        );
      return;
    }
    const reason = reasons.join('; ');
    context.addIssue(
      `is not a cron expression (${reason}). Five fields, or six with seconds first, such as */15 * * * *`,
    );
  })
  .meta({ title: 'cron expression', examples: ['*/15 * * * *'] });

export const timezone = z
  .string()
  .refine((value) => {
    try {
      new Intl.DateTimeFormat('en', { timeZone: value });
      return true;
    } catch {
      return false;
    }
  }, 'is not a time zone that this machine knows. Use a name such as Europe/Berlin')
  .meta({ title: 'time zone', examples: ['Europe/Berlin'] });

export const headers = z
  .record(z.string(), z.string())
  .superRefine(
    (value, context) => {
      const names = Object.keys(value);
      if (names.length > 5) context.addIssue(`has ${names.length} headers; 5 are allowed`);
      const seen = new Set<string>();
      for (const name of names) {
        const fault = headerFault(name, value[name], seen);
        if (fault) context.addIssue({ code: 'custom', path: [name], message: fault });
        seen.add(name.toLowerCase());
      }
    },
    // Runs even if a value is not text.
    { when: ({ value }) => typeof value === 'object' && value !== null && !Array.isArray(value) },
  )
  .meta({ title: 'map of headers', examples: [{ 'x-env': 'prod' }] });

function headerFault(name: string, value: unknown, seen: ReadonlySet<string>): string | null {
  if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name)) return 'is not a header name';
  if (RESERVED_HEADERS.has(name.toLowerCase())) return 'is set by Rollcall or by the connection and cannot be replaced';
  if (seen.has(name.toLowerCase())) return 'is given twice: upper and lower case make no difference';
  if (typeof value === 'string' && !/^[\t\x20-\x7e\x80-\xff]*$/.test(value))
    return 'has a character that headers cannot carry, such as a newline';
  return null;
}

function urlFault(value: string, protocols: readonly string[]): string | null {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: it looks for control characters
  if (/[\x00-\x20\x7f]/.test(value)) return 'must not contain spaces, newlines or control characters';
  const url = URL.parse(value);
  if (!url || !protocols.includes(url.protocol) || url.host === '') {
    return `must be a full URL that begins with ${protocols.map((protocol) => `${protocol}//`).join(' or ')}`;
  }
  return null;
}

const SSL_MODES = ['disable', 'no-verify', 'prefer', 'require', 'verify-ca', 'verify-full'];

/** Does not show the value, which may have a password. */
function postgresFault(value: string): string | null {
  if (urlFault(value, ['postgres:', 'postgresql:'])) {
    return value.includes('@/')
      ? 'must name a host: postgres://USER:PASSWORD@localhost/DATABASE?host=/FOLDER for the socket in a folder'
      : 'must be postgres://USER:PASSWORD@HOST:PORT/DATABASE, with %23 for #, %2F for / and %3F for ? in a password';
  }
  const { searchParams } = new URL(value);
  const mode = searchParams.get('sslmode');
  if (mode !== null && !SSL_MODES.includes(mode)) return `must have one of ${SSL_MODES.join(', ')} as its sslmode`;
  const limits = [...searchParams].filter(([name]) => name.endsWith('_timeout'));
  const [wrong] = limits.find(([, limit]) => !/^\d{1,9}$/.test(limit)) ?? [];
  return wrong === undefined ? null : `must have a whole number of milliseconds as its ${wrong}`;
}
