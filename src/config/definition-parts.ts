import * as z from 'zod';
import type { PlaceFilter } from '../definition/definition.ts';
import {
  OPERATOR_NAMES,
  OPERATORS,
  type Operands,
  REFERRING,
  type Scalar,
  type Test,
  type ValueReference,
} from '../definition/operators.ts';
import { type FieldPlace, type KeyPath, MESSAGE_PARTS } from '../definition/places.ts';
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

const instantText = z
  .string('must be a day or a time such as 2026-01-31 or 2026-01-31T09:00:00Z')
  .transform((value, context) => {
    const at = isoInstant(value);
    if (at !== null) return new Date(at).toISOString();
    context.addIssue('must be a day or a time such as 2026-01-31 or 2026-01-31T09:00:00Z; without an offset it is UTC');
    return z.NEVER;
  });

/** The schema of each form of operand. */
const OPERANDS: { readonly [Form in keyof Operands]: z.ZodType<Operands[Form]> } = {
  scalar,
  part: z.union([filled, number, z.boolean()], SCALAR),
  list: z.array(scalar).min(1, 'needs at least one value'),
  ordered: z.union([plainText, number], 'must be a number, or text such as 2026-01-31'),
  flag,
  text: filled,
  instant: instantText,
  span: positive(duration, 'must be longer than nothing'),
};

/** A value in place of a constant. */
const reference = section({ trait: z.string().optional(), property: z.string().optional() })
  .transform(({ trait, property }, context): ValueReference => {
    const fail = (path: string[], message: string) => {
      context.addIssue({ code: 'custom', path, message });
      return z.NEVER;
    };
    if ((trait === undefined) === (property === undefined)) return fail([], 'needs trait or property, one of the two');
    if (trait !== undefined) {
      const path = readPath(trait);
      return 'fault' in path ? fail(['trait'], path.fault) : { trait: path.path };
    }
    const place = readPlace(property ?? '');
    return 'fault' in place ? fail(['property'], place.fault) : { property: place };
  })
  .describe('The value of a trait of the person, or of a property of the same event');

/** The operators on one value. */
export const testShape: Readonly<Record<string, z.ZodType>> = Object.fromEntries(
  OPERATOR_NAMES.map((name) => {
    const { takes, says } = OPERATORS[name];
    const isReferring = name !== 'matches' && REFERRING.some((form) => form === takes);
    const operand = isReferring ? operandOrReference(OPERANDS[takes]) : OPERANDS[takes].optional();
    return [name, says === undefined ? operand : operand.describe(says)];
  }),
);

/** Maps are references, so that a mistake in one is not reported as one of a constant. */
function operandOrReference(operand: z.ZodType): z.ZodType {
  return z
    .unknown()
    .optional()
    .transform((given, context) => {
      if (given === undefined) return given;
      const isMap = typeof given === 'object' && given !== null && !Array.isArray(given);
      const read = (isMap ? reference : operand).safeParse(given);
      if (read.success) return read.data;
      for (const issue of read.error.issues) context.addIssue({ ...issue } as Parameters<typeof context.addIssue>[0]);
      return z.NEVER;
    })
    .meta({ anyOf: [z.toJSONSchema(operand, { io: 'input' }), z.toJSONSchema(reference, { io: 'input' })] });
}

export function testsOf(given: Readonly<Record<string, unknown>>): readonly Test[] {
  // The operands have been validated.
  return OPERATOR_NAMES.flatMap((operator) =>
    given[operator] === undefined ? [] : [{ operator, operand: given[operator] } as Test],
  );
}

/** A name of an event, page or screen, or several, of which any counts; null for any at all. */
export const activityNames = z.union(
  [
    filled.transform((name): readonly string[] | null => [name]),
    z
      .array(filled)
      .min(1, 'needs at least one name')
      .transform((names): readonly string[] | null => names),
    section({ any: z.literal(true) }).transform(() => null),
  ],
  {
    error: ({ input }) =>
      typeof input === 'number' || typeof input === 'boolean'
        ? 'must be text. Put it in quotes'
        : 'must be a name, a list of names, or { any: true }',
  },
);

const span = positive(duration, 'must be longer than nothing');

export const windowShape = {
  within: span.optional().describe('Only events less than this ago count, such as 90 days'),
  between: z
    .tuple([span, span], 'must be two durations, such as [30 days, 7 days]')
    .refine(([from, until]) => from > until, 'must begin with the longer one, such as [30 days, 7 days]')
    .optional()
    .describe('Only events less than the first and at least the second ago count'),
  since: instantText
    .transform((value) => Date.parse(value))
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
