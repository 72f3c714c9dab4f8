import { hash } from 'node:crypto';
import { MAX_ID_BYTES } from '../../../src/message-types.ts';
import { literal, name, type SqlDialect, type ValueType, whiteSpace } from '../sql/plan-query.ts';
import { isSame, toldValue } from './values.ts';

const ID_TYPE = /^(VARCHAR|U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|UINTEGER|DECIMAL\(\d+,0\)|UUID|ENUM\b.*)$/;
const BLANK = `[${whiteSpace((code) => `\\x{${code}}`)}]*`;

/** Errors of DuckDB's readers for Parquet, JSON, CSV and gzip files that end too early. */
const INCOMPLETE =
  /No magic bytes found at end|too small to be a Parquet file|unexpected end of data|unterminated quote|not a GZIP stream|Error when sniffing file|Invalid TType|TProtocolException|Snappy|ZSTD/;

export const duckdbDialect: SqlDialect = {
  // Only ids that start with a space or beyond ASCII pay for the pattern. No other database accepts a NUL in text.
  unusable: (id) =>
    `strlen(${id}) > ${MAX_ID_BYTES} OR contains(${id}, chr(0)) OR ((${id} < '!' OR ${id} > '~') AND regexp_full_match(${id}, '${BLANK}'))`,
  traitValue: (column) => toldValue(name(column.name), column),
  jsonType(value) {
    const isList = value.items !== undefined;
    return { type: itemType(value.items ?? value), isList };
  },
  jsonObject: (fields) =>
    `CAST(json_object(${fields.map(({ key, value }) => `${literal(key)}, ${value}`).join(', ')}) AS varchar)`,
  isSame,
  isIdType: (type) => ID_TYPE.test(type),
  writtenNames: (statement) => `SELECT column_name FROM (DESCRIBE\n${statement}\n)`,
  numbered: (rows) =>
    `SELECT CAST(row_number() OVER () AS integer) AS n, * FROM (SELECT * FROM (${rows}) AS unordered ORDER BY user_id NULLS LAST) AS ordered`,
  isIncomplete: ({ message }) => INCOMPLETE.test(message),
  binary: '',
  binaryOfOthers: ' COLLATE "C"',
  place: 'rowid',
  prefix: (id) => id,
  opaque: '',
  // `hash` would be faster, and another one in another version of DuckDB.
  idHash: {
    sql: (id) => `md5_number_lower(${id})`,
    of: (id) => hash('md5', id, 'buffer').readBigUInt64LE(8),
  },
  hash: (values, seed) => `CAST(hash(${[...values, seed].join(', ')}) >> 1 AS bigint)`,
  // Each thread holds a block of each partition, and makes the more partitions the less memory there is.
  parts: {
    most: "SELECT parse_formatted_bytes(current_setting('memory_limit')) / current_setting('threads') / 8",
    isIn: (id, part, parts) => `hash(${id}) % ${parts} = ${part}`,
    isTooLarge: (error) => error instanceof Error && error.message.includes('Out of Memory Error'),
  },
  keep(table, query, more) {
    const columns = [...PLAN, ...more.map((column) => `${column} USING COMPRESSION uncompressed`)];
    return [`CREATE TABLE ${table} (${columns.join(', ')})`, `INSERT INTO ${table} ${query}`];
  },
};

/** A plan is written once and read once: compressing columns that always differ took a third of the CPU of writing. */
const PLAN = [
  'n integer USING COMPRESSION uncompressed',
  'user_id varchar USING COMPRESSION uncompressed',
  'value varchar',
  'was boolean',
  'now boolean',
  'rows bigint',
];

function itemType({ type, items, fields, entries }: ValueType) {
  if (items || fields || entries) return 'unknown';
  if (/^(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|UINTEGER|DOUBLE|FLOAT|DECIMAL\(.*\))$/.test(type)) return 'number';
  if (type === 'BOOLEAN') return 'boolean';
  return /^(VARCHAR|UUID|DATE|TIME|TIMESTAMP\w*|INTERVAL|ENUM)\b/.test(type) ? 'string' : 'unknown';
}
