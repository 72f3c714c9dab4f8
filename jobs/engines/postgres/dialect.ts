import { MAX_ID_BYTES } from '../../../src/message-types.ts';
import { DOUBLE_LIMIT, literal, name, type SqlDialect, type ValueType, whiteSpace } from '../sql/plan-query.ts';

const ID_TYPE = /^(text|character varying|character|name|citext|smallint|integer|bigint|numeric\(\d+,0\)|uuid|enum)$/;
const BLANK = `'^[${whiteSpace((code) => `\\u${code}`)}]*$'`;
const INFINITIES = ['infinity', '-infinity'];

/** JSON that `jsonb` may not take: U+0000, half surrogates and numbers too large for it. */
const NO_JSONB = String.raw`\\u(0000|[dD][89a-fA-F])|[eE][-+]?\d{4}|\d{200}`;
/** Longer text may be nested deeper than the server's stack allows. */
const DEEPEST = 4_000;

/** bad_copy_file_format and io_error, as foreign tables over files raise them. */
const INCOMPLETE = new Set(['22P04', '58030']);

export const postgresDialect: SqlDialect = {
  // Only ids that start with a space or beyond ASCII pay for the pattern. Other encodings lack some of its characters.
  unusable: (id) =>
    `octet_length(${id}) > ${MAX_ID_BYTES} OR (${id} < '!' OR ${id} > '~') AND CASE getdatabaseencoding() WHEN 'UTF8' THEN ${id} ~ ${BLANK} ELSE ${id} ~ '^\\s*$' END`,
  traitValue({ name: column, type, items }) {
    if (/^(bytea|bit\b)/.test(type)) return null;
    return items ? toldList(name(column), items.type) : toldScalar(name(column), type);
  },
  jsonType({ type, items }) {
    const isList = items !== undefined;
    const item = items?.type ?? type;
    if (/^(smallint|integer|bigint|double precision|real|numeric)/.test(item)) return { type: 'number', isList };
    if (item === 'boolean') return { type: 'boolean', isList };
    const isText = /^(text|character|name$|citext|uuid|date|time|interval|enum)/.test(item);
    return { type: isText ? 'string' : 'unknown', isList };
  },
  jsonObject,
  isSame: (one, other) =>
    `CASE WHEN length(concat(${one}, ${other})) > ${DEEPEST} OR concat(${one}, ${other}) ~ '${NO_JSONB}' THEN FALSE ELSE CAST(${one} AS jsonb) = CAST(${other} AS jsonb) END`,
  isIdType: (type) => ID_TYPE.test(type),
  writtenNames: () => null,
  numbered: (rows) =>
    `SELECT CAST(row_number() OVER (ORDER BY user_id COLLATE "C") AS integer) AS n, unordered.* FROM (${rows}) AS unordered`,
  isIncomplete: (error) => INCOMPLETE.has(String((error as { code?: unknown }).code)),
  binary: ' COLLATE "C"',
  place: 'ctid',
  // An index entry has room for 2,700 bytes at most.
  prefix: (id) => `left(${id}, 64)`,
  opaque: ' OFFSET 0',
  idHash: null,
  hash: (values, seed) =>
    values
      .map((value, n) => `coalesce(hashtextextended(CAST(${value} AS text) COLLATE "C", ${seed + n}), ${seed + n})`)
      .join(' # '),
  parts: null,
  keep: (table, query) => [`CREATE TABLE ${table} AS ${query}`],
};

/** Columns of one call: a function takes at most 100 arguments. */
const COLUMNS = 50;

/** Joins the texts of several calls, if there are more columns. Texts alone cost half of that. */
function jsonObject(fields: Parameters<SqlDialect['jsonObject']>[0]): string {
  if (fields.every(({ type, isList }) => type === 'string' && !isList)) {
    const keys = fields.map(({ key }) => literal(key)).join(', ');
    const values = fields.map(({ value }) => `CAST(${value} AS text)`).join(', ');
    return `CAST(json_object(ARRAY[${keys}], ARRAY[${values}]) AS varchar)`;
  }
  const pairs = fields.slice(0, COLUMNS).map(({ key, value }) => `${literal(key)}, ${value}`);
  const object = `CAST(json_build_object(${pairs.join(', ')}) AS varchar)`;
  if (fields.length <= COLUMNS) return object;
  return `(left(${object}, -1) || ', ' || substr(${jsonObject(fields.slice(COLUMNS))}, 2))`;
}

/** A column's type from its name; lists are `TYPE[]`. */
export function valueType(type: string): ValueType {
  return type.endsWith('[]') ? { type, items: { type: type.slice(0, -'[]'.length) } } : { type };
}

function toldScalar(value: string, type: string): string {
  // With extra_float_digits at 0, floats have 15 significant digits, as DuckDB's have.
  if (type === 'real')
    return `CASE WHEN CAST(${value} AS text) NOT IN ('NaN', 'Infinity', '-Infinity') THEN ${value} END`;
  // NaN is greater than any number.
  if (/^(double precision|numeric\b.*)$/.test(type))
    return `CASE WHEN abs(${value}) < ${DOUBLE_LIMIT} THEN ${value} END`;
  // Other years have no form of four digits.
  const isTellable = `isfinite(${value}) AND ${value} >= ${type} '0001-01-01' AND ${value} < ${type} '10000-01-01'`;
  if (type === 'date') return `CASE WHEN ${isTellable} THEN to_char(${value}, 'YYYY-MM-DD') END`;
  if (/^timestamp .*zone$/.test(type)) {
    return `CASE WHEN ${isTellable} THEN to_char(${value}, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') END`;
  }
  // The cast of char(n) to text removes its padding, as it does for ids.
  if (/^(time .*zone|interval|character)$/.test(type)) return `CAST(${value} AS text)`;
  return value;
}

/** Lists of lists have the same type as lists: their times are written as Postgres writes them in JSON. */
function toldList(value: string, item: string): string {
  if (item === 'character') return `CAST(${value} AS text[])`;
  const isFloat = /^(double precision|real|numeric\b.*)$/.test(item);
  const isDate = /^(date|timestamp .*zone)$/.test(item);
  const out = [...(isFloat ? ['NaN'] : []), ...(isFloat || isDate ? INFINITIES : [])];
  const finite = out.reduce((list, each) => `array_replace(${list}, '${each}', NULL)`, value);
  if (!isDate) return finite;
  const each = `SELECT ${toldScalar('item', item)} FROM unnest(${value}) WITH ORDINALITY AS items(item, n) ORDER BY n`;
  return `CASE WHEN ${value} IS NULL THEN NULL WHEN array_ndims(${value}) > 1 THEN to_json(${finite}) ELSE to_json(ARRAY(${each})) END`;
}
