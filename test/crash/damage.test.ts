import t from 'tap';
import { damageRound, leaveStore } from './damage.ts';
import { randomNumbers } from './random.ts';

// `npm run test:crash` is the long version; test/store/sqlite/damage.test.ts has every sort of damage.
const left = await leaveStore('SIGKILL');
t.teardown(() => left.remove());
for (const damage of ['ten pages are overwritten', 'it is emptied', 'its folder is gone'] as const) {
  t.test(`does not serve a damaged store as if nothing had happened: ${damage}`, async (t) => {
    await damageRound(t, damage, randomNumbers(7), left);
  });
}
