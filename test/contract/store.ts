import type { Test } from 'tap';
import type { Store } from '../../src/store/port.ts';
import { alertCases } from './store-alerts.ts';
import { claimCases } from './store-claims.ts';
import { clockCases } from './store-clock.ts';
import { confirmationCases } from './store-confirmations.ts';
import { conflictCases } from './store-conflicts.ts';
import { crashCases } from './store-crashes.ts';
import { deletionCases } from './store-deletions.ts';
import { discardCases } from './store-discards.ts';
import type { Fixture, OpenFixture } from './store-fixture.ts';
import { fleetCases } from './store-fleet.ts';
import { fullQueueCases } from './store-full-queue.ts';
import { handoverCases } from './store-handover.ts';
import { historyCases } from './store-history.ts';
import { intakeCases } from './store-intake.ts';
import { letterCases } from './store-letters.ts';
import { liveCases } from './store-live.ts';
import { messageCases } from './store-messages.ts';
import { modelCases } from './store-model.ts';
import { pagingCases } from './store-paging.ts';
import { pauseCases } from './store-pauses.ts';
import { syncCases } from './store-sync.ts';

/** A sentence, and what shows that it holds for a new, empty store. */
export type Cases = Readonly<Record<string, (t: Test, store: Store, fixture: Fixture) => Promise<unknown>>>;

/**
 * The contract of every store. `open` makes an empty database. Resolves once everything is tested.
 *
 * @param every - tests one case in so many
 */
export async function storeContract(t: Test, name: string, open: OpenFixture, every = 1): Promise<void> {
  const cases: Cases = {
    ...intakeCases,
    ...claimCases,
    ...handoverCases,
    ...crashCases,
    ...conflictCases,
    ...letterCases,
    ...fullQueueCases,
    ...syncCases,
    ...fleetCases,
    ...deletionCases,
    ...confirmationCases,
    ...discardCases,
    ...historyCases,
    ...alertCases,
    ...messageCases,
    ...pagingCases,
    ...pauseCases,
    ...liveCases,
    ...clockCases,
    ...modelCases,
  };
  for (const [index, [sentence, check]] of Object.entries(cases).entries()) {
    if (index % every !== 0) continue;
    await t.test(`${name}: ${sentence}`, async (t) => {
      const fixture = await open();
      t.teardown(() => fixture.close());
      await check(t, await fixture.open(), fixture);
    });
  }
}
