import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import t from 'tap';
import { AS_ADMIN } from '../helpers/admin.ts';
import { startEstate } from './estate.ts';

/** It needs the TypeScript before ours, which is in a folder of its own. */
const { default: openapiTS, astToString } = createRequire(
  join(import.meta.dirname, '../receivers/typescript-5.9/package.json'),
)('openapi-typescript');

type Schema = { readonly [key: string]: unknown };

interface Document {
  readonly paths: Record<
    string,
    Record<string, { readonly responses: Record<string, { content?: Record<string, { schema?: Schema }> }> }>
  >;
}

/** The document itself has the texts. */
const COMMENT = /^ *\/\*\*[\s\S]*?\*\/\n/gm;

/** A shape that stands in several places is one type, with the name of the first of them. */
function shared(answers: Readonly<Record<string, Schema>>): Readonly<Record<string, Schema>> {
  const times = new Map<string, number>();
  const count = (value: unknown) => {
    if (isShape(value)) times.set(JSON.stringify(value), (times.get(JSON.stringify(value)) ?? 0) + 1);
    if (typeof value === 'object' && value !== null) Object.values(value).forEach(count);
  };
  count(answers);
  const types: Record<string, Schema> = {};
  const names = new Map<string, string>();
  const within = (value: unknown, place: string): unknown => {
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return value.map((each) => within(each, place));
    const text = JSON.stringify(value);
    if (!isShape(value) || (times.get(text) ?? 0) < 2) return inner(value, place);
    if (!names.has(text)) {
      names.set(text, place);
      types[place] = inner(value, place);
    }
    return { $ref: `#/components/schemas/${names.get(text)?.replaceAll('/', '~1')}` };
  };
  const inner = (value: object, place: string): Schema =>
    Object.fromEntries(
      Object.entries(value).map(([key, each]) => [key, within(each, SYNTAX.has(key) ? place : `${place} ${key}`)]),
    );
  for (const [name, answer] of Object.entries(answers)) {
    const type = within(answer, name) as Schema;
    types[name] ??= type;
  }
  return types;
}

const SYNTAX = new Set(['properties', 'items', 'anyOf', 'oneOf', 'additionalProperties']);
const isShape = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && Object.keys((value as Schema)['properties'] ?? {}).length > 3;

/** What fits a line gets one. */
function folded(types: string): string {
  const next = types.replaceAll(/\{\n([^{}]*)\n *\}/g, (whole: string, inner: string) => {
    const line = `{ ${inner.trim().replaceAll(/\s*\n\s*/g, ' ')} }`;
    return line.length <= 100 ? line : whole;
  });
  return next === types ? types : folded(next);
}

t.test('pages have the types of the OpenAPI document', async (t) => {
  const estate = await startEstate(t.testdir(), { empty: true });
  t.teardown(() => estate.close());
  const answer = await fetch(`${estate.address}/api/v1/openapi.json`, { headers: AS_ADMIN });
  const { paths } = (await answer.json()) as Document;
  const schemas = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { responses }]) => {
      const schema = responses['200']?.content?.['application/json']?.schema;
      return schema ? [[`${method.toUpperCase()} ${path.replace('/api/v1', '')}`, schema]] : [];
    }),
  );
  t.ok(schemas.length > 40, `${schemas.length} answers`);
  const document = {
    ...{ openapi: '3.1.0', info: { title: '', version: '' }, paths: {} },
    components: { schemas: shared(Object.fromEntries(schemas)) },
  };
  const types: string = astToString(await openapiTS(document));
  const made = `// Made by npm run reference from the OpenAPI document.\n\n${folded(types.replaceAll(COMMENT, ''))}`;
  const file = join(import.meta.dirname, '../../src/admin/pages/answers.d.ts');
  if (process.env['REFERENCE'] === 'write') writeFileSync(file, made);
  t.equal(readFileSync(file, 'utf8'), made, 'npm run reference writes it again');
});
