import type { Test } from 'tap';
import { type ReaderFixture, readerCases } from '../../jobs/readers/contract/index.ts';

export type { ReaderFixture };

/**
 * Runs the published contract cases over a reader.
 *
 * @param leftOut - reasons why what stands in for a database can't show some cases, by their names
 */
export function readerContract(t: Test, fixture: ReaderFixture, leftOut: Readonly<Record<string, string>> = {}): void {
  for (const { name, run } of readerCases) {
    t.test(name, { skip: leftOut[name] ?? false }, async (t) => {
      await run(fixture);
      t.pass('every assertion of the case held');
    });
  }
}

/** How MySQL and MariaDB spell what most databases share. */
export const MYSQL_SPELLING: NonNullable<ReaderFixture['spelling']> = {
  text: (quoted) => `cast(${quoted.replaceAll('\\', '\\\\')} as char)`,
  hasBooleans: false,
  list: null,
  double: (text) => `cast('${text}' as double)`,
  series: (count) => `select seq as n from seq_1_to_${count}`,
  endless: 'select a.seq as user_id from seq_1_to_1000000 as a, seq_1_to_1000000 as b where a.seq + b.seq < 0',
  failing: `select 'x' as user_id where (select seq from seq_1_to_2) = 1`,
  hasNaN: false,
};

export const SQLITE_SPELLING: NonNullable<ReaderFixture['spelling']> = {
  text: (quoted) => `cast(${quoted} as text)`,
  list: null,
  moment: (text) => `'${text}'`,
  day: (text) => `'${text}'`,
  double: (text) => `cast('${text}' as real)`,
  repeat: (text, times) => `replace(hex(zeroblob(${times / 2})), '0', '${text}')`,
  series: (count) =>
    `with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ${count}) select n from numbers`,
  endless: 'with recursive n (i) as (select 1 union all select i + 1 from n) select count(*) as user_id from n',
  failing: null,
  hasBooleans: false,
  hasNaN: false,
  hasTypes: false,
};

const manyNumbers = (count: number) =>
  `(select a * 1000 + b + 1 as n from unnest(sequence(0, ${Math.ceil(count / 1_000) - 1})) as x (a), unnest(sequence(0, 999)) as y (b))`;

export const TRINO_SPELLING: NonNullable<ReaderFixture['spelling']> = {
  double: (text) => `cast('${text.replace('nan', 'NaN').replace('infinity', 'Infinity')}' as double)`,
  repeat: (text, times) => `lpad('', ${times}, '${text}')`,
  series: (count) => `select n from ${manyNumbers(count)} where n <= ${count}`,
  endless: `select n as user_id from ${manyNumbers(1_000_000)} cross join ${manyNumbers(1_000_000)} as more (m) where n + m < 0`,
  failing: `select 'x' as user_id from (select 'x' as word) as words where 1 = cast(word as integer)`,
  hasInfinity: false,
};
