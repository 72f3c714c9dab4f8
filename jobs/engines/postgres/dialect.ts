import { type Dialect, literal, name } from '../sql/plan-query.ts';

const ID_TYPE = /^(text|character varying|character|name|citext|smallint|integer|bigint|uuid|enum)$/;

export const postgresDialect: Dialect = {
  blank: (expression) => `${expression} ~ '^\\s*$'`,
  traitValue({ name: column, type }) {
    const value = name(column);
    if (/^(bytea|bit\b)/.test(type)) return null;
    // With extra_float_digits at 0, floats are told with 15 significant digits, as DuckDB's are.
    if (/^(double precision|real|numeric)$/.test(type)) {
      return `CASE WHEN CAST(${value} AS text) NOT IN ('NaN', 'Infinity', '-Infinity') THEN ${value} END`;
    }
    if (/^timestamp .*zone$/.test(type)) return `to_char(${value}, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
    if (/^(time .*zone|interval)$/.test(type)) return `CAST(${value} AS text)`;
    return value;
  },
  jsonType(type) {
    const isList = type.endsWith('[]');
    const item = isList ? type.slice(0, -'[]'.length) : type;
    if (/^(smallint|integer|bigint|double precision|real|numeric)/.test(item)) return { type: 'number', isList };
    if (item === 'boolean') return { type: 'boolean', isList };
    const isText = /^(text|character|name$|citext|uuid|date|time|interval|enum)/.test(item);
    return { type: isText ? 'string' : 'unknown', isList };
  },
  jsonObject: (fields) =>
    `CAST(json_build_object(${fields.map(({ key, value }) => `${literal(key)}, ${value}`).join(', ')}) AS varchar)`,
  isIdType: (type) => ID_TYPE.test(type),
  numbered: (rows) =>
    `SELECT CAST(row_number() OVER (ORDER BY user_id COLLATE "C") AS integer) AS n, unordered.* FROM (${rows}) AS unordered`,
  binary: ' COLLATE "C"',
};
