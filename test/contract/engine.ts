import type { Test } from 'tap';
import { type EngineFixture, engineCases } from '../../jobs/engines/contract/index.ts';

export { request, settle, told, usersSql } from '../../jobs/engines/contract/fixture.ts';
export type { EngineFixture };

/**
 * Runs the published contract cases over an engine.
 *
 * @param open - makes a fixture; it cleans up after itself with `t.teardown`
 * @param every - runs one case in so many
 */
export function engineContract(t: Test, open: (t: Test) => Promise<EngineFixture>, every = 1): void {
  for (const { name, run } of engineCases.filter((_, index) => index % every === 0)) {
    t.test(name, async (t) => {
      await run(() => open(t));
      t.pass('every assertion of the case held');
    });
  }
}
