import * as z from 'zod';

/** How answers look, for the documentation of the service's routes. */

const error = z.object({
  code: z.string().describe('Stable and meant for programs.'),
  message: z.string(),
  error: z.string().describe('The same as `message`.'),
});

/** Messages that clients may send, as JSON Schema. */
export function jsonSchema(schema: z.ZodType): Record<string, unknown> {
  const { $schema, ...rest } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  return rest;
}

export function errorAnswer(description: string): Record<string, unknown> {
  return { description, ...jsonSchema(error) };
}
