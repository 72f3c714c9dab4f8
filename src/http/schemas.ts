import type { FastifyContextConfig, FastifySchema } from 'fastify';
import * as z from 'zod';
import { RollcallError } from '../kernel/errors.ts';

/** Schemas of answers, for the documentation of the service's routes. */

const error = z.object({
  code: z.string().describe('Stable and meant for programs.'),
  message: z.string(),
  error: z.string().describe('The same as `message`.'),
});

export interface Documented {
  readonly config?: FastifyContextConfig;
  readonly schema?: FastifySchema;
}

/** Makes the schema on the first request for the documentation: those of all routes take a sixth of the CPU of a start. */
export function documented(make: () => FastifySchema): Documented {
  return { config: { swaggerTransform: ({ url }) => ({ url, schema: make() }) } };
}

export const HIDDEN: Documented = { schema: { hide: true } };

const known = new WeakMap<z.ZodType, Readonly<Record<string, unknown>>>();

/** Converts the input of a schema to JSON Schema, once for each: every route has the one of an error. */
export function jsonSchema(schema: z.ZodType): Readonly<Record<string, unknown>> {
  const made = known.get(schema);
  if (made) return made;
  const { $schema, ...rest } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  known.set(schema, rest);
  return rest;
}

export function errorAnswer(description: string): Record<string, unknown> {
  return { description, ...jsonSchema(error) };
}

/**
 * Checks a part of a request.
 *
 * @param where - the name of the part, for problems of the whole part
 * @throws RollcallError `invalid_request` with up to five reasons
 */
export function checkedPart<S extends z.ZodType>(schema: S, given: unknown, where: string): z.output<S> {
  const result = schema.safeParse(given, { error: explain });
  if (result.success) return result.data;
  const problems = result.error.issues
    .slice(0, 5)
    .map(({ path, message }) => `${path.length > 0 ? path.join('.') : where}: ${message}`);
  throw new RollcallError('invalid_request', problems.join('; '));
}

/** Messages for problems that a schema has no message for. */
function explain(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? 'is required' : `must be of the type ${issue.expected}`;
    case 'invalid_value':
      return `must be ${issue.values.map(String).join(' or ')}`;
    case 'too_small':
      return `must ${sized('at least', Number(issue.minimum), issue.origin)}`;
    case 'too_big':
      return `must ${sized('at most', Number(issue.maximum), issue.origin)}`;
    default:
      return undefined;
  }
}

function sized(bound: string, limit: number, origin: string): string {
  if (origin === 'array') return `have ${bound} ${limit} ${limit === 1 ? 'item' : 'items'}`;
  if (origin === 'string') return `have ${bound} ${limit} ${limit === 1 ? 'character' : 'characters'}`;
  return `be ${bound} ${limit}`;
}
