import t from 'tap';
import { Settler, type SettlerHooks } from '../../src/deliver/settler.ts';
import type { Claim, Settlement } from '../../src/store/port.ts';
import { ManualClock } from '../helpers/clock.ts';

const settlement = (id: number): Settlement => ({
  claim: { id: `d-${id}`, destination: 'crm' } as Claim,
  verdict: { kind: 'delivered' },
  attempts: [],
});

/** A settler over a store that a test makes fail, on a clock whose pauses end at once. */
function rig(settle: (batch: readonly Settlement[]) => void) {
  const clock = new ManualClock();
  const after = clock.after.bind(clock);
  clock.after = (ms, callback) => {
    const cancel = after(ms, callback);
    setImmediate(() => clock.advance(ms));
    return cancel;
  };
  const written: Settlement[] = [];
  const givenUp: Settlement[] = [];
  const hooks: SettlerHooks = {
    onWritten: (batch) => written.push(...batch),
    onFailure: () => {},
    onGivenUp: (settlement) => givenUp.push(settlement),
  };
  const settler = new Settler(async (batch) => settle(batch), clock, hooks);
  return { settler, written, givenUp };
}

t.test('a settlement that the store refuses for good is given up, and every other one is written once', async (t) => {
  const poison = new Set([3, 500, 777].map((id) => `d-${id}`));
  const { settler, written, givenUp } = rig((batch) => {
    if (batch.some(({ claim }) => poison.has(claim.id))) throw new Error('constraint failed');
  });
  for (let id = 0; id < 1_500; id += 1) settler.add(settlement(id));
  // Something goes on being written, as in a service that is at work.
  for (let id = 1_500; givenUp.length < 3; id += 1) {
    settler.add(settlement(id));
    await new Promise((resolve) => setImmediate(resolve));
  }
  await settler.flush(() => false);
  t.same(givenUp.map(({ claim }) => claim.id).sort(), [...poison].sort());
  const ids = written.map(({ claim }) => claim.id);
  t.equal(new Set(ids).size, ids.length, 'once');
  t.ok(Array.from({ length: 1_500 }, (_, id) => `d-${id}`).every((id) => poison.has(id) || ids.includes(id)));
  t.equal(settler.size, 0);
});

t.test('nothing is given up while the store takes nothing at all', async (t) => {
  let calls = 0;
  const { settler, written, givenUp } = rig(() => {
    calls += 1;
    if (calls < 200) throw new Error('connection refused');
  });
  for (let id = 0; id < 20; id += 1) settler.add(settlement(id));
  await settler.flush(() => false);
  t.same(givenUp, []);
  t.equal(new Set(written).size, 20);
  t.equal(written.length, 20);
});
