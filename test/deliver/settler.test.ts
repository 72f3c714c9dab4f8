import t from 'tap';
import { Settler, type SettlerHooks } from '../../src/deliver/settler.ts';
import type { Claim, Settlement } from '../../src/store/port.ts';
import { ManualClock } from '../helpers/clock.ts';

const settlement = (id: number): Settlement => ({
  claim: { id: `d-${id}`, destination: 'crm', conflict: null, body: '{}' } as Claim,
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
  const faults: unknown[] = [];
  const hooks: SettlerHooks = {
    onWritten: (batch) => written.push(...batch),
    onFailure: () => {},
    onGivenUp: (settlement) => givenUp.push(settlement),
    onFatal: (error) => faults.push(error),
  };
  const settler = new Settler({ settle: async (batch) => settle(batch), clock, interval: 0, hooks });
  return { settler, written, givenUp, faults, hooks };
}

t.test('gives up a settlement that the store always refuses, and writes every other one once', async (t) => {
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
  t.same([settler.size, settler.characters], [0, 0]);
});

t.test('gives up nothing while the store accepts nothing at all', async (t) => {
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

/** A settler that gathers for ten milliseconds of a clock that the test moves. */
function gathering() {
  const clock = new ManualClock();
  const batches: number[] = [];
  const hooks: SettlerHooks = {
    onWritten: (batch) => batches.push(batch.length),
    onFailure: () => {},
    onGivenUp: () => {},
    onFatal: () => {},
  };
  const settler = new Settler({ settle: async () => {}, clock, interval: 10, hooks });
  const turns = async () => {
    for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  };
  return { clock, batches, settler, turns };
}

t.test('gathers settlements that nothing waits for, then writes them at once', async (t) => {
  const { clock, batches, settler, turns } = gathering();
  settler.add(settlement(1));
  await turns();
  settler.add(settlement(2));
  clock.advance(9);
  await turns();
  t.same(batches, []);
  clock.advance(1);
  await turns();
  t.same(batches, [2]);
});

const urgent: [string, (settlement: Settlement) => Settlement][] = [
  ['a change of membership', ({ claim, ...rest }) => ({ ...rest, claim: { ...claim, conflict: 'vip/u1' } })],
  ['one that is given back', (other) => ({ ...other, verdict: { kind: 'release', dueAt: null } })],
];
for (const [which, change] of urgent) {
  t.test(`writes ${which} at once, with the gathered settlements`, async (t) => {
    const { batches, settler, turns } = gathering();
    settler.add(settlement(1));
    await turns();
    settler.add(change(settlement(2)));
    await turns();
    t.same(batches, [2]);
  });
}

t.test('gathers retries and postponed deliveries with the others', async (t) => {
  const { batches, settler, turns } = gathering();
  settler.add({ ...settlement(1), verdict: { kind: 'retry', dueAt: 5, firstAt: 0, marks: {} } });
  settler.add({ ...settlement(2), verdict: { kind: 'release', dueAt: 5 } });
  settler.add({ ...settlement(3), verdict: { kind: 'dead', reason: 'refused', status: 400, firstAt: 0 } });
  await turns();
  t.same(batches, []);
  settler.add({ ...settlement(4), verdict: { kind: 'release', dueAt: null } });
  await turns();
  t.same(batches, [4]);
});

t.test('gathers changes of a first sync', async (t) => {
  const { clock, batches, settler, turns } = gathering();
  for (const id of [1, 2, 3]) {
    const { claim, ...rest } = settlement(id);
    settler.add({ ...rest, claim: { ...claim, conflict: `vip/u${id}`, lane: 'backfill' } });
    await turns();
  }
  t.same(batches, []);
  clock.advance(10);
  await turns();
  t.same(batches, [3]);
});

t.test('writes many at once', async (t) => {
  const { batches, settler, turns } = gathering();
  for (let id = 0; id < 400; id += 1) settler.add(settlement(id));
  await turns();
  t.same(batches, [400]);
});

t.test('gathers nothing before a stop', async (t) => {
  const { batches, settler } = gathering();
  settler.add(settlement(1));
  await settler.flush(() => false);
  t.same(batches, [1]);
});

t.test('counts characters of waiting settlements until written, cleared or handed in', async (t) => {
  const { hooks } = rig(() => {});
  const writing: (() => void)[] = [];
  const settle = () => new Promise<void>((resolve) => writing.push(resolve));
  const settler = new Settler({ settle, clock: new ManualClock(), interval: 0, hooks });
  const add = (...ids: number[]) => {
    for (const id of ids) settler.add(settlement(id));
    return new Promise((resolve) => setImmediate(resolve));
  };
  await add(1, 2);
  await add(3);
  t.equal(settler.characters, 6, 'two are being written, one waits');
  settler.handIn();
  t.equal(settler.characters, 4);
  settler.clear();
  t.equal(settler.characters, 0);
  writing.shift()?.();
  await add(4);
  t.equal(settler.characters, 2, 'what was cleared is not taken off twice');
});
