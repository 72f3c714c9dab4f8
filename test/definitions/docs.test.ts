import { readFileSync } from 'node:fs';
import t from 'tap';
import { parse as parseYaml } from 'yaml';
import { shownSql } from '../../jobs/index.ts';
import { parseConfig } from '../../src/config/load.ts';
import { configJsonSchema } from '../../src/config/schema.ts';
import { openEngines } from './helpers/engines.ts';
import { NOW } from './helpers/event.ts';

const docs = readFileSync(new URL('../../docs/definitions.md', import.meta.url), 'utf8');
const examples = [...docs.matchAll(/^```yaml\n([\s\S]*?)^```/gm)].map(([, text = '']) => text);
const BASE = 'sources: [{ id: personas, writeKey: k }]\neventLog: {}\n';

t.test('shows only examples that are configurations with SQL that both engines accept', async (t) => {
  t.ok(examples.length >= 4);
  const engines = await openEngines(t);
  for (const engine of engines) await engine.session.run('CREATE TABLE orders (user_id varchar, amount integer)');
  for (const text of examples) {
    const config = parseConfig(`${BASE}${text}`, { file: 'docs', folder: '/', env: {} });
    for (const { type, result } of engines) {
      const engine =
        type === 'duckdb'
          ? ({ type, path: '', memoryLimit: null, threads: null, concurrency: 1 } as const)
          : ({ type, url: '', concurrency: 1 } as const);
      for (const { key, kind, sql } of await shownSql({ ...config, engines: { lake: engine } }, [])) {
        t.same(await result(kind, sql, NOW), {}, `${key}, ${type}: nobody, of an empty log`);
      }
    }
  }
});

t.test('shows an example for every key of a short definition', async (t) => {
  const schema = configJsonSchema() as { $defs?: Record<string, Shape>; properties: Record<string, { items: Shape }> };
  const shapes = [...Object.values(schema.$defs ?? {}), schema.properties['traits']?.items.properties?.['value'] ?? {}];
  const keys = new Set(shapes.flatMap((shape) => Object.keys(shape.properties ?? {})));
  for (const key of ['inAudience', 'atLeast', 'mostFrequent', 'of']) t.ok(keys.has(key), `the schema has ${key}`);
  const used = new Set(examples.flatMap((text) => keysOf(parseYaml(text))));
  t.same(
    [...keys].filter((key) => !used.has(key)),
    [],
  );
});

interface Shape {
  readonly properties?: Readonly<Record<string, Shape>>;
}

function keysOf(value: unknown): readonly string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => [key, ...keysOf(inner)]);
}
