import { type Dialect, literal, name } from '../sql/plan-query.ts';

const ID_TYPE = /^(VARCHAR|U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|UINTEGER|UUID|ENUM\b.*)$/;
/** What has no form in JSON that a receiver would expect. */
const UNTELLABLE = /^(BLOB|BIT|BIGNUM|GEOMETRY)\b/;

export const duckdbDialect: Dialect = {
  // Few ids start with a character up to the space: only they pay for the pattern.
  blank: (expression) => `${expression} < '!' AND regexp_full_match(${expression}, '\\s*')`,
  traitValue({ name: column, type }) {
    const value = name(column);
    if (UNTELLABLE.test(type)) return null;
    // 15 and 7 significant digits: a parallel sum adds in another order every time, and that is no change.
    if (type === 'DOUBLE') return `CASE WHEN isfinite(${value}) THEN CAST(format('{:.15g}', ${value}) AS JSON) END`;
    if (type === 'FLOAT') return `CASE WHEN isfinite(${value}) THEN CAST(format('{:.7g}', ${value}) AS JSON) END`;
    if (type.startsWith('TIMESTAMP')) return `strftime(CAST(${value} AS TIMESTAMP), '%Y-%m-%dT%H:%M:%S.%gZ')`;
    if (/^(TIME|INTERVAL|UUID)\b/.test(type)) return `CAST(${value} AS varchar)`;
    return value;
  },
  jsonType(type) {
    const isList = /\[\d*\]$/.test(type);
    const item = isList ? type.replace(/\[\d*\]$/, '') : type;
    if (/^(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|UINTEGER|DOUBLE|FLOAT|DECIMAL\(.*\))$/.test(item))
      return { type: 'number', isList };
    if (item === 'BOOLEAN') return { type: 'boolean', isList };
    const isText = /^(VARCHAR|UUID|DATE|TIME|TIMESTAMP|INTERVAL|ENUM)\b/.test(item) && !/[[\]]$/.test(item);
    return { type: isText ? 'string' : 'unknown', isList };
  },
  jsonObject: (fields) =>
    `CAST(json_object(${fields.map(({ key, value }) => `${literal(key)}, ${value}`).join(', ')}) AS varchar)`,
  isIdType: (type) => ID_TYPE.test(type),
  numbered: (rows) =>
    `SELECT CAST(row_number() OVER () AS integer) AS n, * FROM (SELECT * FROM (${rows}) AS unordered ORDER BY user_id NULLS LAST) AS ordered`,
  binary: '',
};
