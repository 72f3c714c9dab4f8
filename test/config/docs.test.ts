import { readFile } from 'node:fs/promises';
import t from 'tap';
import { holdPage, markdownTable } from '../helpers/made-page.ts';
import { parse } from './helpers.ts';
import { merged, type Schema, type Setting, schema, settings } from './settings.ts';

const docs = await readFile(new URL('../../docs/configuration.md', import.meta.url), 'utf8');
const lists = ['sources', 'destinations', 'audiences', 'traits', 'engines', 'alerts'];
const listed = (name: string) => settings(schema.properties?.[name]?.items ?? {});
const engine = schema.properties?.['engines']?.additionalProperties as Schema;

const tables: Readonly<Record<string, readonly Setting[]>> = {
  service: settings(schema, '', (path) => !lists.includes(path)),
  alerts: settings(schema.properties?.['alerts'] ?? {}),
  sources: listed('sources'),
  destinations: listed('destinations'),
  engines: settings(engine),
  computations: merged([...listed('audiences'), ...listed('traits')]),
};

t.test('lists every setting of the schema in docs/configuration.md', async (t) => {
  t.ok(Object.values(tables).flat().length > 80);
  const parts = Object.entries(tables).map(([name, rows]) => {
    const cells = rows.map((row) => [`\`${row.path}\``, row.type, row.default, row.meaning, row.example]);
    return [name, markdownTable(['setting', 'type', 'default', 'meaning', 'example'], cells)];
  });
  holdPage(t, 'docs/configuration.md', Object.fromEntries(parts));
});

t.test('gives every setting a type and a sentence', async (t) => {
  for (const [name, rows] of Object.entries(tables)) {
    for (const { path, type, meaning } of rows) {
      t.not(type, '', `${name} ${path}`);
      t.match(
        meaning,
        /^[^a-z].*\.$|^(duckdb|postgres|clickhouse|mysql|sqlite|trino|snowflake|bigquery|module): .*\.$/,
        `${name} ${path}`,
      );
    }
  }
});

t.test('shows examples and defaults that the program accepts', async (t) => {
  const given = (rows: readonly Setting[], path: string) => rows.find((row) => row.path === path)?.example.slice(1, -1);
  const [destination = [], audience = []] = [tables['destinations'], tables['computations']];
  const yaml = `
    sources: [{ id: shop, writeKey: k, rateLimit: ${given(tables['sources'] ?? [], 'rateLimit')} }, { id: personas, writeKey: p }]
    destinations:
      - name: ${given(destination, 'name')}
        sources: ${given(destination, 'sources')}
        types: ${given(destination, 'types')}
        events: ${given(destination, 'events')}
        audiences: ${given(destination, 'audiences')}
        rateLimit: ${given(destination, 'rateLimit')}
        webhooks: [{ url: "${given(destination, 'webhooks[].url')}", headers: ${given(destination, 'webhooks[].headers')} }]
    audiences:
      - name: ${given(audience, 'name')}
        source: ${given(audience, 'source')}
        schedule: "${given(audience, 'schedule')}"
        timezone: ${given(audience, 'timezone')}
        sql: ${given(audience, 'sql')}
        guard: { maxExits: ${given(audience, 'guard.maxExits')}, maxEntries: ${given(audience, 'guard.maxEntries')} }
        expect: { minRows: ${given(audience, 'expect.minRows')}, maxChange: ${given(audience, 'expect.maxChange')} }
  `;
  t.notMatch(yaml, 'undefined');
  t.match(parse(yaml), { destinations: [{ name: 'crm' }], audiences: [{ key: 'big_spenders' }] });
});

t.test('shows a valid complete file that uses every section', async (t) => {
  const example = /^```yaml\n(serviceName:.*?)^```/ms.exec(docs)?.[1] ?? '';
  const variables = [...example.matchAll(/\$\{(\w+)\}/g)].map(([, name = '']) => name);
  const env = Object.fromEntries(
    variables.map((name) => [name, name === 'WAREHOUSE_URL' ? 'postgres://h/d' : `the-value-of-${name}`]),
  );
  t.match(parse(example, env), { destinations: [{ secrets: ['the-value-of-CRM_SECRET'] }], logLevel: 'info' });
  // It needs other files.
  const names = Object.keys(schema.properties ?? {}).filter((name) => name !== 'include');
  for (const name of names) t.match(example, new RegExp(`^${name}:`, 'm'), name);
});

t.test('names the defaults that the program uses', async (t) => {
  const config = parse('sources: [{ id: a, writeKey: k }]');
  const defaults = Object.fromEntries(
    (tables['service'] ?? []).map((row) => [row.path, row.default.replaceAll('`', '')]),
  );
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
