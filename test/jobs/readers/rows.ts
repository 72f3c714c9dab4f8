import type { ReadBatch, Reader } from '../../../jobs/readers/port.ts';

/** All rows of a query. */
export async function readAll(reader: Reader, sql: string, now = 0): Promise<readonly (readonly unknown[])[]> {
  const { batches } = await reader.query({ sql, now });
  const rows: (readonly unknown[])[] = [];
  for await (const batch of batches) rows.push(...rowsOf(batch));
  return rows;
}

function rowsOf(batch: ReadBatch): readonly (readonly unknown[])[] {
  if (!('columns' in batch)) return batch;
  const lists = batch.columns.map((values) => (typeof values === 'string' ? values.split('\n') : values));
  return Array.from({ length: batch.rows }, (_, row) => lists.map((list) => list[row]));
}

export const sizeOf = (batch: ReadBatch): number => ('columns' in batch ? batch.rows : batch.length);
