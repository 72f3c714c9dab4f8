import { readFile } from 'node:fs/promises';
import t from 'tap';
import { configJsonSchema } from '../../src/config/schema.ts';
import { parse } from './helpers.ts';

const docs = await readFile(new URL('../../docs/configuration.md', import.meta.url), 'utf8');
const schema = configJsonSchema() as Schema;

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly additionalProperties?: Schema | boolean;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
}

/** Paths of all settings below a schema, such as `guard.maxExits` and `webhooks[].url`. */
function settings(schema: Schema, prefix = ''): readonly string[] {
  const own = Object.entries(schema.properties ?? {}).flatMap(([name, property]) => {
    const path = prefix === '' ? name : `${prefix}.${name}`;
    const below = [...settings(property, path), ...(property.items ? settings(property.items, `${path}[]`) : [])];
    return below.length > 0 && property.anyOf === undefined && property.items === undefined ? below : [path, ...below];
  });
  const branches = [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].flatMap((branch) => settings(branch, prefix));
  return [...new Set([...own, ...branches])];
}

/** Settings in the tables of a section. */
function documented(heading: string): readonly string[] {
  const section = docs.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? '';
  return [...section.matchAll(/^\| `([^`]+)` \|/gm)].map(([, name = '']) => name);
}

const lists = ['sources', 'destinations', 'audiences', 'traits', 'engines'];

t.test('every setting is documented, and no other is', async (t) => {
  const service = settings(schema).filter((path) => !lists.includes(path.split(/[.[]/)[0] ?? ''));
  t.strictSame(documented('The service').toSorted(), service.toSorted());
  for (const list of ['sources', 'destinations'] as const) {
    t.strictSame(documented(list).toSorted(), settings(schema.properties?.[list]?.items ?? {}).toSorted(), list);
  }
  const engine = schema.properties?.['engines']?.additionalProperties as Schema;
  t.strictSame(documented('engines').toSorted(), settings(engine).toSorted());
  for (const list of ['audiences', 'traits'] as const) {
    // docs/definitions.md has what is below them.
    const [own, other] = list === 'audiences' ? ['when', 'value'] : ['value', 'when'];
    const found = settings(schema.properties?.[list]?.items ?? {}).filter((path) => !/^(when|value)[.[]/.test(path));
    const named = documented('audiences and traits').filter((name) => name !== other);
    t.strictSame(named.toSorted(), [...new Set([...found, own])].toSorted(), list);
  }
});

t.test('the whole file that it shows is right, and uses every section', async (t) => {
  const example = /^```yaml\n(serviceName:.*?)^```/ms.exec(docs)?.[1] ?? '';
  const variables = [...example.matchAll(/\$\{(\w+)\}/g)].map(([, name = '']) => name);
  const env = Object.fromEntries(variables.map((name) => [name, name === 'WAREHOUSE_URL' ? 'postgres://h/d' : name]));
  t.match(parse(example, env), { destinations: [{ secrets: ['CRM_SECRET', 'none-yet'] }], logLevel: 'info' });
  for (const name of Object.keys(schema.properties ?? {})) t.match(example, new RegExp(`^${name}:`, 'm'), name);
});

t.test('the defaults that it names are those of the program', async (t) => {
  const config = parse('sources: [{ id: a, writeKey: k }]');
  const rows = [...docs.matchAll(/^\| `([^`]+)` \| ([^|]+) \|/gm)].map(([, name, value]) => [
    name,
    value?.replaceAll('`', ''),
  ]);
  const defaults = Object.fromEntries(rows);
  t.equal(defaults['serviceName'], config.serviceName);
  t.equal(defaults['store'], config.store.url.replace('/etc/rollcall/', './'));
  t.equal(defaults['store.maxQueued'], String(config.store.maxQueued));
  t.equal(defaults['listen.host'], config.listen.host);
  t.equal(defaults['listen.port'], String(config.listen.port));
  t.equal(config.attemptRetention, 7 * 86_400_000);
  t.equal(defaults['attempts.keep'], '7d');
  t.same(config.recordRetention, { runs: 90 * 86_400_000, regulations: 365 * 86_400_000, audit: 365 * 86_400_000 });
  t.same([defaults['runs.keep'], defaults['regulations.keep']], ['90d', '365d']);
  t.equal(config.delivery.removedAfter, 86_400_000);
  t.equal(defaults['delivery.removedAfter'], '24h');
  t.equal(defaults['log.level'], config.logLevel);
});
