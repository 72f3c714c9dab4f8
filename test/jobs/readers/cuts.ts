import type { Test } from 'tap';
import type { Reader } from '../../../jobs/readers/port.ts';
import { startCutProxy } from '../../helpers/cut-proxy.ts';
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

/** Cuts at the same time: most of a cut is waiting. */
const LANES = 4;

/**
 * Cuts the connection at random bytes of the answers. A reading that ends without an error has all rows.
 *
 * @param port - of the server
 * @param open - reads through the proxy at a port
 * @param sql - returns 20,000 rows
 */
export async function neverReadsLess(
  t: Test,
  port: number,
  open: (port: number) => Promise<Reader>,
  sql: string,
): Promise<void> {
  const outcomes = { failed: 0, whole: 0 };
  let cut = 0;
  const cutMore = async () => {
    const proxy = await startCutProxy(port);
    t.teardown(() => proxy.close());
    const whole = await open(proxy.port);
    const before = proxy.passed;
    t.equal(await count(whole, sql), ROWS);
    const bytes = proxy.passed - before;
    await whole.close();
    while (cut < CUTS) {
      cut += 1;
      const how = cut % 2 === 0 ? 'end' : 'reset';
      // Some of the last ones fall into the end of the answer.
      const at = cut % 4 === 0 ? bytes - Math.floor(Math.random() * 40) : Math.floor(Math.random() * bytes);
      const reader = await open(proxy.port);
      proxy.cutAfter(at, how);
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
  };
  await Promise.all(Array.from({ length: LANES }, cutMore));
  t.ok(outcomes.failed >= CUTS / 2, JSON.stringify(outcomes));
}
