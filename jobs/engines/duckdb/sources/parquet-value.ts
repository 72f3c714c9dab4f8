import type { TypedText } from './typed-text.ts';

const INTEGER = /^U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?$|^UINTEGER$/;

/** A value of a Parquet file as another type, if nothing can get lost; null if something could. */
export function parquetValue(column: string, type: string, stored: string): TypedText | null {
  const wanted = type.toUpperCase().replace('TEXT', 'VARCHAR').replace(/^INT$/, 'INTEGER').replaceAll(' ', '');
  if (wanted === stored || wanted === 'JSON')
    return { value: wanted === 'JSON' ? `to_json(${column})` : column, isBad: 'false' };
  const isLossless =
    (wanted === 'VARCHAR' && (INTEGER.test(stored) || /^(UUID|ENUM\b.*|JSON)$/.test(stored))) ||
    (INTEGER.test(stored) && /^(\w*INT|INTEGER|DECIMAL.*|DOUBLE)$/.test(wanted)) ||
    (/^DECIMAL/.test(stored) && /^DECIMAL/.test(wanted) && scaleOf(stored) <= scaleOf(wanted)) ||
    (/^(FLOAT|DECIMAL.*)$/.test(stored) && wanted === 'DOUBLE') ||
    (/^(DATE|TIMESTAMP.*)$/.test(stored) && /^TIMESTAMP/.test(wanted));
  if (!isLossless) return null;
  const cast = `(${column} AS ${type})`;
  return { value: `CAST${cast}`, isBad: `${column} IS NOT NULL AND TRY_CAST${cast} IS NULL` };
}

function scaleOf(type: string): number {
  return Number(/,(\d+)\)/.exec(type)?.[1] ?? 0);
}
