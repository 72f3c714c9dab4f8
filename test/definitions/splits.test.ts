import { readFileSync } from 'node:fs';
import t from 'tap';
import { duckdbDefinitions } from '../../jobs/engines/definitions/duckdb.ts';
import { postgresDefinitions } from '../../jobs/engines/definitions/postgres.ts';
import { isInSplit } from '../../src/definition/conditions.ts';
import { openEngines } from './helpers/engines.ts';

const docs = readFileSync(new URL('../../docs/definitions.md', import.meta.url), 'utf8');
const vectors = [...docs.matchAll(/^\| `(\w+)` \| `(\w+|é)` \| (\d+\.\d\d) \|$/gm)].map(
  ([, name = '', user = '', place]) => {
    return { name, user, bucket: Math.round(Number(place) * 100) };
  },
);

t.test('puts people into the places that the docs list', async (t) => {
  t.equal(vectors.length, 4);
  const engines = await openEngines(t);
  for (const { name, user, bucket } of vectors) {
    t.ok(isInSplit({ name, from: bucket, to: bucket + 1 }, user), `${name} ${user}`);
    for (const { type, session } of engines) {
      const dialect = type === 'duckdb' ? duckdbDefinitions : postgresDefinitions;
      const rows = await session.rows(`SELECT CAST(${dialect.bucket(`'${name}:${user}'`)} AS integer)`);
      t.same(rows, [[bucket]], `${name} ${user}, ${type}`);
    }
  }
});
