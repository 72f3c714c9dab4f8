import * as z from 'zod';
import { type FieldPlace, type KeyPath, MESSAGE_PARTS, type PlaceFilter } from '../definition/definition.ts';
import { OPERATOR_NAMES, OPERATORS, type Operands, type Scalar, type Test } from '../definition/operators.ts';
import { suggestion } from '../kernel/spelling.ts';
import { isoInstant } from '../kernel/timestamp.ts';
import { duration, flag, positive } from './formats.ts';
import { section } from './section.ts';

/** Text that both databases can hold. */
const plainText = z
  .string()
  .refine((value) => value.isWellFormed() && !value.includes('\0'), 'has a character that no database can hold');

const filled = plainText.refine((value) => value !== '', 'must not be empty');

const SCALAR = 'must be text, a number, true or false. For a value that is missing or null say exists: false';
const number = z.number(SCALAR);
const scalar = z.union([plainText, number, z.boolean()], SCALAR);

/** The schema of each form of operand. */
const OPERANDS: { readonly [Form in keyof Operands]: z.ZodType<Operands[Form]> } = {
  scalar,
  part: z.union([filled, number, z.boolean()], SCALAR),
  list: z.array(scalar).min(1, 'needs at least one value'),
  ordered: z.union([plainText, number], 'must be a number, or text such as 2026-01-31'),
  flag,
};

/** The operators on one value. */
export const testShape: Readonly<Record<string, z.ZodType>> = Object.fromEntries(
  OPERATOR_NAMES.map((name) => {
    const { takes, says } = OPERATORS[name];
    const operand = OPERANDS[takes].optional();
    return [name, says === undefined ? operand : operand.describe(says)];
  }),
);

export function testsOf(given: Readonly<Record<string, unknown>>): readonly Test[] {
  // The operands have been validated.
  return OPERATOR_NAMES.flatMap((operator) =>
    given[operator] === undefined ? [] : [{ operator, operand: given[operator] } as Test],
  );
}

/** A name of an event, as `track` has it. */
export const eventName = filled.describe('Name of a track event');

export const windowShape = {
  within: positive(duration, 'must be longer than nothing')
    .optional()
    .describe('Only events less than this ago count, such as 90 days'),
  since: z
    .string()
    .transform((value, context) => {
      const at = isoInstant(value);
      if (at !== null) return at;
      context.addIssue(
        'must be a day or a time such as 2026-01-31 or 2026-01-31T09:00:00Z; without an offset it is UTC',
      );
      return z.NEVER;
    })
    .optional()
    .describe('Only events at or after this time count'),
};

const PLACE = /^(?<part>[^.]*)\.(?<path>[\s\S]*)$/;

/** A place in a message, such as `properties.total`. */
export function readPlace(text: string): FieldPlace | { readonly fault: string } {
  const { part = '', path = '' } = PLACE.exec(text)?.groups ?? {};
  const known = MESSAGE_PARTS.find((candidate) => candidate === part);
  if (known === undefined) {
    const isMisspelt = suggestion(part, MESSAGE_PARTS).includes('Did you mean');
    return {
      fault: `must begin with properties., context. or traits., such as properties.${isMisspelt ? path : text}`,
    };
  }
  const keys = readPath(path);
  return 'fault' in keys ? keys : { part: known, path: keys.path };
}

/** A key between dots. One that contains a dot or a quote must be in double quotes, as in JSON. */
const SEGMENT = /(?<quoted>"(?:[^"\\]|\\.)*")|(?<plain>[^."\\]+)/y;

export function readPath(text: string): { readonly path: KeyPath } | { readonly fault: string } {
  const fault = 'is no path: keys with dots between them, such as cart.total; a key that has a dot in double quotes';
  const path: string[] = [];
  for (let at = 0; ; at += 1) {
    SEGMENT.lastIndex = at;
    const found = SEGMENT.exec(text);
    if (!found) return { fault };
    const { quoted, plain = '' } = found.groups ?? {};
    const key = quoted === undefined ? plain : unquoted(quoted);
    if (key === null || !plainText.safeParse(key).success) return { fault };
    path.push(key);
    at = SEGMENT.lastIndex;
    if (at === text.length) return { path };
    if (text[at] !== '.') return { fault };
  }
}

function unquoted(text: string): string | null {
  try {
    return String(JSON.parse(text));
  } catch {
    return null;
  }
}

const filterTests = z.union(
  [plainText, number, z.boolean(), section(testShape)],
  'must be a value, or operators such as { gt: 10 }',
);

/** Filters on the parts of a message: a bare value is short for `is`. */
export const where = z
  .record(z.string(), filterTests)
  .transform((filters, context): readonly PlaceFilter[] => {
    if (context.issues.length > 0) return z.NEVER;
    return Object.entries(filters).flatMap(([key, given]) => {
      const place = readPlace(key);
      const tests = isScalar(given) ? [{ operator: 'is', operand: given } as const] : testsOf(given);
      const fault =
        'fault' in place ? place.fault : tests.length === 0 ? 'needs an operator, such as { gt: 10 }' : null;
      if (fault !== null) context.addIssue({ code: 'custom', path: [key], message: fault });
      return 'fault' in place ? [] : [{ ...place, tests }];
    });
  })
  .describe('Only events whose properties, context or traits pass, such as { properties.total: { gt: 10 } }');

function isScalar(value: unknown): value is Scalar {
  return typeof value !== 'object';
}
