import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { text } from '../../../src/store/postgres/arrays.ts';

/** As Postgres reads it. */
function read(array: Buffer): (string | null)[] {
  const [dimensions, hasNull, type, count, from] = [0, 4, 8, 12, 16].map((at) => array.readInt32BE(at));
  assert.deepEqual([dimensions, type, from], [1, 25, 1]);
  const values: (string | null)[] = [];
  let at = 20;
  for (let left = count as number; left > 0; left -= 1) {
    const length = array.readInt32BE(at);
    at += 4;
    values.push(length === -1 ? null : array.toString('utf8', at, at + length));
    if (length > 0) at += length;
  }
  assert.equal(at, array.length);
  assert.equal(hasNull, values.includes(null) ? 1 : 0);
  return values;
}

/** As the database may hold it: what is not well-formed is replaced, and so is U+0000. */
const stored = (value: string | null) =>
  value === null ? null : Buffer.from(value.replaceAll('\0', '\u2400')).toString();

t.test('passes a column of text unchanged, whatever it contains', async (t) => {
  const ascii = fc.string({ unit: 'grapheme-ascii', maxLength: 60 });
  const units = fc.oneof(
    { weight: 6, arbitrary: fc.integer({ min: 1, max: 127 }) },
    { weight: 1, arbitrary: fc.constantFrom(0, 0x80, 0xe9, 0x7ff, 0x800, 0xd83d, 0xde00, 0xffff) },
  );
  const any = fc.array(units, { maxLength: 60 }).map((codes) => String.fromCharCode(...codes));
  for (const value of [ascii, any]) {
    fc.assert(
      fc.property(fc.array(fc.option(value)), (values) => {
        assert.deepEqual(read(text(values)), values.map(stored));
      }),
    );
  }
  t.pass('200 columns');
});

t.test('passes a non-ASCII string at the end of a column completely, however long', async (t) => {
  for (let length = 0; length < 60; length += 1) {
    for (const last of ['é', 'é!', '\u20ac', '\ud83d\ude00', '\ud83d', '!\0']) {
      const values = ['a'.repeat(length) + last];
      assert.deepEqual(read(text(values)), values.map(stored));
    }
  }
  t.same(read(text([])), []);
  t.same(read(text([{ of: 'a' }, { of: null }], ({ of }) => of)), ['a', null]);
});
