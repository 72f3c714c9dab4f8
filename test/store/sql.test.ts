import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import t from 'tap';
import { join, raw, type Sql, sql, where } from '../../src/store/sql.ts';
import { SQLITE, textOf } from '../../src/store/sqlite/session.ts';

const numbered = (query: Sql) => query.text((n) => `$${n}`);

t.test('turns values into parameters, numbered in the order of the text', async (t) => {
  const inner = sql`b = ${2} OR c = ${'three'}`;
  const query = sql`SELECT ${1} FROM t WHERE ${inner} LIMIT ${null}`;
  t.equal(numbered(query), 'SELECT $1 FROM t WHERE b = $2 OR c = $3 LIMIT $4');
  t.same(query.values, [1, 2, 'three', null]);
});

t.test('keeps the values of a list of fragments in order, and makes nothing of an empty list', async (t) => {
  const query = join([sql`${1}`, raw('now()'), sql`${2} + ${3}`], ', ');
  t.equal(numbered(query), '$1, now(), $2 + $3');
  t.same(query.values, [1, 2, 3]);
  t.equal(numbered(join([], ', ')), '');
});

t.test('builds a WHERE clause of the given conditions', async (t) => {
  t.equal(numbered(where(null, sql`a = ${1}`, null, sql`b = ${2}`)), 'WHERE a = $1 AND b = $2');
  t.equal(numbered(where(null, null)), '');
});

t.test('passes any text as a value, never as SQL', async (t) => {
  const database = new DatabaseSync(':memory:');
  const nested: fc.Arbitrary<Sql> = fc.letrec((tie) => ({
    query: fc.oneof(
      { depthSize: 'small' },
      fc.string().map((text) => sql`SELECT ${text} AS v`),
      fc
        .tuple(tie('query') as fc.Arbitrary<Sql>, tie('query') as fc.Arbitrary<Sql>)
        .map(([a, b]) => sql`${a} UNION ALL ${b}`),
    ),
  })).query as fc.Arbitrary<Sql>;
  fc.assert(
    fc.property(nested, (query) => {
      const rows = database.prepare(textOf(query)).all(...query.values);
      const found = rows.map((row) => row['v']);
      // SQLite ends a text that it gives back at U+0000.
      return found.every((text, index) => text === query.values[index] || String(query.values[index]).includes('\0'));
    }),
  );
  database.close();
  t.pass('100 queries');
});

t.test('removes the schema from table names in SQLite, not from values', async (t) => {
  const query = sql`SELECT record FROM rollcall.run WHERE key = ${'rollcall.run'} AND ${SQLITE.oneOf(raw('id'), 'text', ['a'])}`;
  t.equal(textOf(query), 'SELECT record FROM run WHERE key = ? AND id IN (SELECT value FROM json_each(?))');
  t.same(query.values, ['rollcall.run', '["a"]']);
});
