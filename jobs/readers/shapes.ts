import { RollcallError } from '../../src/kernel/errors.ts';
import type { ReadColumn, ReadResult, ValueKind } from './port.ts';
import { jsonTextOf, jsonTypeOf } from './values.ts';

/** A type of a database that has lists and records, by the form of its values. */
export type Shape =
  | { readonly kind: ValueKind; readonly read?: (value: NonNullable<unknown>) => unknown }
  | { readonly list: Shape }
  /** Values in the order of the fields. */
  | { readonly fields: readonly (readonly [string, Shape])[] }
  | { readonly map: Shape };

/** A column of this shape, and what makes its values of those that arrive. */
export interface ShapedColumn extends ReadColumn {
  readonly read: ((value: NonNullable<unknown>) => unknown) | null;
}

export function shapedColumn(name: string, type: string, shape: Shape): ShapedColumn {
  if ('kind' in shape) return { name, type, kind: shape.kind, read: shape.read ?? null };
  const read = (value: NonNullable<unknown>) => jsonOf(shape, value);
  const item = 'list' in shape && 'kind' in shape.list ? jsonTypeOf(shape.list).type : null;
  const json = item === null || item === 'unknown' ? undefined : { type: item, isList: true };
  return { name, type, kind: 'json', json, read };
}

/** Rows with the values of their columns. @throws RollcallError `source_incomplete` if one has fewer or more */
export function readRows(columns: readonly ShapedColumn[], rows: readonly unknown[]): readonly (readonly unknown[])[] {
  const isPlain = columns.every(({ read }) => read === null);
  return rows.map((row) => {
    if (!Array.isArray(row) || row.length !== columns.length)
      throw new RollcallError('source_incomplete', 'A row of the result has other columns.');
    if (isPlain) return row;
    return columns.map(({ read }, place) => {
      const value: unknown = row[place];
      return read === null || value === null || value === undefined ? value : read(value);
    });
  });
}

/** The first row of a result of few; empty without one. */
export async function firstRow(asked: Promise<ReadResult>): Promise<readonly unknown[]> {
  for await (const batch of (await asked).batches) if (!('columns' in batch) && batch[0]) return batch[0];
  return [];
}

function jsonOf(shape: Shape, value: unknown): string {
  if (value === null || value === undefined) return 'null';
  if ('kind' in shape) {
    const read: unknown = shape.read ? shape.read(value) : value;
    return (read === null || read === undefined ? null : jsonTextOf(shape)(read)) ?? 'null';
  }
  if ('list' in shape) return `[${(value as readonly unknown[]).map((item) => jsonOf(shape.list, item)).join(',')}]`;
  const entries: readonly (readonly [string, Shape, unknown])[] =
    'map' in shape
      ? Object.entries(value).map(([name, item]) => [name, shape.map, item])
      : shape.fields.map(([name, field], place) => [name, field, (value as readonly unknown[])[place]]);
  return `{${entries.map(([name, field, item]) => `${JSON.stringify(name)}:${jsonOf(field, item)}`).join(',')}}`;
}
