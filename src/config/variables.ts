import type { Mistake, Path } from './mistakes.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** True if a variable is set but empty. */
export const isSetEmpty = (name: string, env: Environment = process.env): boolean => env[name] === '';

/** The choice of NO_COLOR or FORCE_COLOR; null if neither is set. */
export function wantsColours({ NO_COLOR, FORCE_COLOR }: Environment = process.env): boolean | null {
  if (NO_COLOR) return false;
  return FORCE_COLOR ? !['0', 'false'].includes(FORCE_COLOR) : null;
}

/** `${NAME}` or `${NAME:-default}`; `$${` stands for `${` itself. Any other `${` is a misspelt variable. */
const VARIABLE = /\$(?<escaped>\$\{)|\$\{(?<name>\w+)(?::-(?<fallback>(?:(?!\$\{)[^}])*))?\}|\$\{/g;
/** In SQL `$${"a":1}$$` is a text, so only complete variables count, and `$${NAME}` stands for `${NAME}` itself. */
const SQL_VARIABLE =
  /\$(?<escaped>\$\{[a-z_]\w*(?::-[^}]*)?\})|\$\{(?<name>[a-z_]\w*)(?::-(?<fallback>(?:(?!\$\{)[^}])*))?\}/gi;

const MISSPELT = `has a \${ that names no variable: write \${NAME} or \${NAME:-default}, and $\${ for \${ itself`;

/** Findings while filling in variables. */
interface FillNotes {
  /** Variables that are not set, or misspelt. */
  readonly missing: (Mistake & { readonly name?: string })[];
  /** A value in place of a variable that is not set. */
  readonly instead?: (name: string, path: Path) => string | null;
  /** Values filled into SQL, each with its variable's name. */
  readonly inSql: Map<string, string>;
}

/** Fills variables into the texts of a parsed file. Their values stay text, whatever they look like. */
export function fillVariables(value: unknown, env: Environment, notes: FillNotes, path: Path = []): unknown {
  if (typeof value === 'string') return fillText(value, env, notes, path);
  if (Array.isArray(value)) {
    const filled = value.map((item, index) => fillVariables(item, env, notes, [...path, index]));
    return path.at(-1) === 'sharedSecret'
      ? filled.filter((item, index) => !isLeftOut(item, value[index], index))
      : filled;
  }
  if (typeof value !== 'object' || value === null) return value;
  const filled = Object.entries(value).map(([key, item]) => [key, fillVariables(item, env, notes, [...path, key])]);
  return Object.fromEntries(filled);
}

/** True for an absent optional former secret, `${OLD_SECRET:-}`. The first one signs, so it can't be left out. */
function isLeftOut(filled: unknown, written: unknown, index: number): boolean {
  return index > 0 && filled === '' && /^\$\{\w+:-\}$/.test(String(written));
}

/** Values that fit the formats of settings, so that a file can be checked without its variables. */
const STAND_INS: readonly ((name: string) => string)[] = [
  (name) => `unset-variable-${name}`,
  (name) => `https://${name}.invalid/`,
  (name) => `postgres://${name}.invalid/unset`,
  (name) => `mysql://${name}.invalid/unset`,
  ...['1', '1h', '1/s', '1GB', 'true', '127.0.0.1', '* * * * *', 'UTC'].map((value) => () => value),
];

/** The value to try for an unset variable; null if none is left. */
export const standIn = (name: string, index: number): string | null => STAND_INS[index]?.(name) ?? null;

function fillText(text: string, env: Environment, { missing, inSql, instead }: FillNotes, path: Path): string {
  const isSql = path.at(-1) === 'sql';
  return text.replace(isSql ? SQL_VARIABLE : VARIABLE, (whole, ...rest) => {
    const { escaped, name, fallback } = rest.at(-1) as Record<string, string | undefined>;
    if (escaped !== undefined) return escaped;
    if (name === undefined) {
      missing.push({ path, message: MISSPELT });
      return whole;
    }
    // The name comes from the file: `constructor` must not be found.
    const value = Object.hasOwn(env, name) ? env[name] : undefined;
    if (value && isSql) inSql.set(value, name);
    if (fallback !== undefined) return value || fallback;
    if (value !== undefined) return value;
    missing.push({ path, message: `needs the environment variable ${name}, which is not set`, name });
    return instead?.(name, path) ?? whole;
  });
}
