import ms from 'ms';
import type { ExpectConfig } from '../../src/config/config.ts';
import { latestKnown } from '../engines/freshness.ts';
import type { Staged } from '../engines/port.ts';
import { exceeds, shown } from './guard.ts';

/**
 * The reason not to trust a definition's result; null if there is none. Also holds a first sync, whose source may
 * already be empty or old.
 *
 * @param counts - without excluded users
 * @param asOf - the run's time, milliseconds since 1970
 */
export function disbelief(returned: Staged, counts: Staged, expect: ExpectConfig, asOf: number): string | null {
  return notFresh(returned, expect, asOf) ?? tooFew(returned, expect) ?? tooMuch(counts, expect);
}

function notFresh({ newest }: Staged, { freshness }: ExpectConfig, asOf: number): string | null {
  if (freshness === null) return null;
  const { column, within } = freshness;
  const wanted = `expect.freshness wants one of the last ${ms(within)}`;
  if (newest === undefined || newest === null) return `The source has no value in ${column}; ${wanted}.`;
  if (newest > latestKnown(asOf)) {
    return `The source has no value in ${column} up to the run's time, only later ones; ${wanted}.`;
  }
  if (newest >= asOf - within) return null;
  return `The source is old: the newest ${column} is ${new Date(newest).toISOString()}; ${wanted}.`;
}

function tooFew({ members, duplicates, invalid }: Staged, { minRows }: ExpectConfig): string | null {
  const rows = members + duplicates + invalid;
  if (minRows === null || rows >= minRows) return null;
  return `The SQL returned ${rows === 1 ? '1 row' : `${rows} rows`}; expect.minRows wants ${minRows}.`;
}

function tooMuch({ before, entered, exited, changed }: Staged, { maxChange }: ExpectConfig): string | null {
  const changes = entered + exited + changed;
  if (before === 0 || !exceeds(changes, maxChange, before)) return null;
  return `${changes} of ${before} users would change, more than expect.maxChange (${shown(maxChange)}) allows.`;
}
