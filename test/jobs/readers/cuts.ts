import type { Test } from 'tap';
import type { Reader } from '../../../jobs/readers/port.ts';
import type { CutProxy } from '../../helpers/cut-proxy.ts';
import { sizeOf } from './rows.ts';

/** Cuts in `npm test`; CUTS=1000 tries more. */
export const CUTS = Number(process.env['CUTS'] ?? 24);
const ROWS = 20_000;

async function count(reader: Reader, sql: string): Promise<number> {
  let rows = 0;
  const { batches } = await reader.query({ sql, now: 0 });
  for await (const batch of batches) rows += sizeOf(batch);
  return rows;
}

/**
 * Cuts the connection at random bytes of the answers. A reading that ends without an error has all rows.
 *
 * @param sql - returns 20,000 rows
 */
export async function neverReadsLess(
  t: Test,
  proxy: CutProxy,
  open: () => Promise<Reader>,
  sql: string,
): Promise<void> {
  proxy.cutAfter(null);
  const whole = await open();
  const before = proxy.passed;
  t.equal(await count(whole, sql), ROWS);
  const bytes = proxy.passed - before;
  await whole.close();
  const outcomes = { failed: 0, whole: 0 };
  for (let cut = 0; cut < CUTS; cut += 1) {
    const reader = await open();
    // Some of the last ones fall into the end of the answer.
    const at = cut % 4 === 0 ? bytes - Math.floor(Math.random() * 40) : Math.floor(Math.random() * bytes);
    proxy.cutAfter(at, cut % 2 === 0 ? 'end' : 'reset');
    try {
      const rows = await count(reader, sql);
      if (rows !== ROWS) t.fail(`a cut after ${at} of ${bytes} bytes gave ${rows} rows without an error`);
      outcomes.whole += 1;
    } catch (error) {
      const { code } = error as { code?: string };
      if (code !== 'engine_unreachable' && code !== 'source_incomplete') t.fail(`a cut after ${at} bytes: ${error}`);
      outcomes.failed += 1;
    }
    proxy.cutAfter(null);
    await reader.close();
  }
  t.ok(outcomes.failed >= CUTS / 2, JSON.stringify(outcomes));
}
