import type { Store } from '../../src/store/port.ts';
import type { Cases } from './store.ts';
import {
  accept,
  backlogOf,
  bodies,
  change,
  claim,
  claimOne,
  DELIVERED,
  heldOut,
  LONGEST_ID,
  LONGEST_NAME,
  leaseOf,
  message,
  REFUSED,
  RELEASE,
  retryAt,
  run,
  START,
  settle,
} from './store-fixture.ts';

const TTL = 20_000;

/** An older change in flight, and a newer one that waits for it. */
async function olderInFlight(store: Store) {
  const owner = await store.join(TTL);
  await accept(store, change('k', { body: '"old"' }));
  const old = await claimOne(store, owner);
  await accept(store, change('k', { body: '"new"' }));
  return { owner, old };
}

/** The body of a change of `k`, at an hour. */
const told = (value: boolean, reason: string, hour: number, key = 'k') =>
  JSON.stringify({
    type: 'identify',
    traits: { [key]: value },
    context: {
      personas: {
        ...{ computation_class: 'audience', computation_key: key, sequence: hour, reason },
        ...{ changedAt: new Date(hour * 3_600_000).toISOString(), cause: { messageId: `m-${hour}` } },
      },
    },
  });

/** Sequence, and hour of the explanation, of each body. */
const hours = (all: readonly string[]) =>
  all.map((body) => {
    const { sequence, changedAt } = JSON.parse(body).context.personas;
    return [sequence, Date.parse(changedAt) / 3_600_000];
  });

const remaining = async (store: Store, owner: number) => bodies(await claim(store, owner));

export const conflictCases: Cases = {
  'queues, holds out, buries and keeps a change with the longest id, key and destination': async (
    t,
    _store,
    fixture,
  ) => {
    const store = await fixture.open({ maxQueued: 2 });
    const destinations = [LONGEST_NAME];
    const own = (key: string) => ({ destinations, userId: LONGEST_ID, conflict: `${key}|${LONGEST_ID}` });
    const changes = ['a', 'b', 'c'].map((end) => change('', own(`${LONGEST_NAME.slice(2)}${end}`)));
    await accept(store, ...changes);
    t.equal((await heldOut(store, LONGEST_NAME)).length, 1);
    const owner = await store.join(TTL);
    const [one, other] = await claim(store, owner, { destination: LONGEST_NAME });
    if (!one || !other) throw new Error('two are queued');
    await store.settle(owner, [{ claim: one, verdict: DELIVERED, attempts: [] }], true);
    await settle(store, owner, [other], REFUSED);
    const { messages } = await store.messagePage({ limit: 10, userId: LONGEST_ID }, null);
    t.same(messages.map(({ state }) => state).toSorted(), ['dead', 'dead', 'delivered']);
  },

  'supersedes a pending change by a newer one of the same key and destination': async (t, store) => {
    await accept(store, change('k', { body: '"1"', destinations: ['crm', 'lake'] }));
    await accept(store, change('other', { body: '"other"' }), message({ body: '"plain"' }));
    await accept(store, change('k', { body: '"2"' }), change('k', { body: '"3"' }));
    const owner = await store.join(TTL);
    t.same((await remaining(store, owner)).toSorted(), ['"3"', '"other"', '"plain"']);
    t.same(bodies(await claim(store, owner, { destination: 'lake' })), ['"1"']);
    t.same(await backlogOf(store), { pending: 3, dead: 0 });
  },
  'supersedes all pending changes of a plan’s keys, wherever they are among others': async (t, store) => {
    const fence = await leaseOf(store);
    await store.saveRun(run(), fence);
    // By their bytes, '\ue000' comes before '\u{1f600}'; in JavaScript it comes after.
    const users = ['a', 'b', 'c', 'd', 'e', 'é', '\ud7ff', '\u{1f600}', '\u{1f601}'];
    const pending = ['a', 'bb', 'd', 'é', '\ue000', '\u{1f600}', '\u{1f602}'];
    await accept(store, ...pending.map((user) => change(`k|${user}`, { body: `"old ${user}"` })));
    await accept(store, change('j|x', { body: '"j"' }), change('l|x', { body: '"l"' }));
    const step = { run: 'run-1', fence, epoch: 0 };
    const messages = users.map((user) => change(`k|${user}`, { body: `"new ${user}"`, destinations: ['crm', 'lake'] }));
    const parts = [messages.slice(0, 2), messages.slice(2)] as const;
    await store.accept({ messages: parts[0], step: { ...step, after: null, cursor: '2' } });
    await store.accept({ messages: parts[1], step: { ...step, after: '2', cursor: '9' } });
    const owner = await store.join(TTL);
    const news = users.map((user) => `"new ${user}"`);
    const rest = ['"j"', '"l"', '"old bb"', '"old \ue000"', '"old \u{1f602}"'];
    t.same((await remaining(store, owner)).toSorted(), [...news, ...rest].toSorted());
    t.same(bodies(await claim(store, owner, { destination: 'lake' })).toSorted(), news.toSorted());
  },
  'supersedes both pending changes of a pair, whose keys are not in order': async (t, store) => {
    const fence = await leaseOf(store);
    await store.saveRun(run(), fence);
    const pairs = (text: string, ...users: readonly string[]) =>
      users.flatMap((user) =>
        ['=', '!'].map((mark) => change(`k|${mark}${user}`, { body: `"${text} ${mark}${user}"` })),
      );
    await accept(store, ...pairs('old', 'a', 'c', 'd', 'f'));
    const messages = pairs('new', 'a', 'b', 'c', 'e', 'f');
    await store.accept({ messages, step: { run: 'run-1', fence, epoch: 0, after: null, cursor: '5' } });
    const left = [...messages, ...pairs('old', 'd')].map(({ body }) => body);
    t.same((await remaining(store, await store.join(TTL))).toSorted(), left.toSorted());
  },
  'does not supersede a pending change by a duplicate': async (t, store) => {
    const old = change('k', { body: '"old"' });
    await accept(store, old);
    await accept(store, change('k', { body: '"new"' }));
    t.match(await accept(store, old), { duplicates: 1 });
    t.same(await remaining(store, await store.join(TTL)), ['"new"']);
  },
  'does not claim a newer change while an older one is in flight': async (t, store, fixture) => {
    const { owner, old } = await olderInFlight(store);
    const other = await fixture.open();
    const theirs = await other.join(TTL);
    t.same(await remaining(other, theirs), []);
    await accept(store, change('k', { body: '"newest"' }));
    t.same(await backlogOf(store), { pending: 2, dead: 0 });
    await settle(store, owner, [old], DELIVERED);
    t.same(await remaining(other, theirs), ['"newest"']);
    t.same(await backlogOf(store), { pending: 1, dead: 0 });
  },
  'does not retry an older change once a newer one waits': async (t, store, fixture) => {
    const { owner, old } = await olderInFlight(store);
    await settle(store, owner, [old], retryAt(START + 1_000));
    await fixture.advance(2_000);
    t.same(await remaining(store, owner), ['"new"']);
    t.same(await backlogOf(store), { pending: 1, dead: 0 });
  },
  'drops a released older change once a newer one waits': async (t, store) => {
    const { owner, old } = await olderInFlight(store);
    await settle(store, owner, [old], RELEASE);
    t.same(await remaining(store, owner), ['"new"']);
  },
  'makes no dead letter of a refused older change once a newer one waits': async (t, store) => {
    const { owner, old } = await olderInFlight(store);
    await settle(store, owner, [old], REFUSED);
    t.same(await remaining(store, owner), ['"new"']);
    t.same(await store.deadLetters({ limit: 10 }), []);
    t.same(await backlogOf(store), { pending: 1, dead: 0 });
  },
  'drops the older change of a dead process once a newer one waits': async (t, store, fixture) => {
    await olderInFlight(store);
    const other = await fixture.open();
    await fixture.advance(TTL + 1);
    await other.rescue();
    t.same(await remaining(other, await other.join(TTL)), ['"new"']);
    t.same(await backlogOf(store), { pending: 1, dead: 0 });
  },
  'drops an older change on leaving once a newer one waits': async (t, store) => {
    const { owner } = await olderInFlight(store);
    await store.leave(owner);
    t.same(await remaining(store, await store.join(TTL)), ['"new"']);
  },
  'does not free a newer change by a late verdict over a lost claim': async (t, store, fixture) => {
    const other = await fixture.open();
    const mine = await store.join(TTL);
    await accept(store, change('k', { body: '"old"' }));
    const stale = await claimOne(store, mine);
    await fixture.advance(TTL + 1);
    const theirs = await other.join(TTL);
    await other.rescue();
    const held = await claimOne(other, theirs);
    await accept(store, change('k', { body: '"new"' }));
    for (const verdict of [DELIVERED, RELEASE, retryAt(START), REFUSED]) {
      await settle(store, mine, [stale], verdict);
      t.same(await remaining(other, theirs), [], `${verdict.kind} frees nothing: the other is posting it now`);
    }
    await settle(other, theirs, [held], DELIVERED);
    t.same(await remaining(other, theirs), ['"new"']);
  },
  'supersedes a retry like a first try': async (t, store, fixture) => {
    const owner = await store.join(TTL);
    await accept(store, change('k', { body: '"old"' }));
    await settle(store, owner, [await claimOne(store, owner)], retryAt(START + 1_000));
    await accept(store, change('k', { body: '"new"' }));
    await fixture.advance(2_000);
    t.same(await remaining(store, owner), ['"new"']);
  },
  'replaces a dead change by a newer one': async (t, store) => {
    const owner = await store.join(TTL);
    await accept(store, change('k', { body: '"old"' }), change('j'));
    await settle(store, owner, await claim(store, owner), REFUSED);
    await accept(store, change('k', { body: '"new"' }));
    t.same(
      (await store.deadLetters({ limit: 10 })).map(({ conflict }) => conflict),
      ['j'],
    );
    t.same(await backlogOf(store), { pending: 1, dead: 1 });
  },
  'explains a change as the undelivered one that it takes the place of, in the same direction': async (
    t,
    store,
    fixture,
  ) => {
    const owner = await store.join(TTL);
    const left = async () => hours(bodies(await claim(store, owner)));
    await accept(store, change('k', { body: told(true, 'entered', 1), destinations: ['crm', 'lake'] }));
    await accept(store, change('k', { body: told(true, 'resync', 2) }));
    t.same(hours(bodies(await claim(store, owner, { destination: 'lake' }))), [[1, 1]]);
    const [waiting] = await claim(store, owner);
    if (!waiting) throw new Error('one waits');
    t.same(hours([waiting.body]), [[2, 1]], 'of one that waits');
    await accept(store, change('k', { body: told(true, 'resync', 3) }));
    await settle(store, owner, [waiting], retryAt(START));
    t.same(await left(), [[3, 1]], 'of one in flight that is tried again');
    await accept(store, change('d', { body: told(true, 'entered', 1, 'd') }));
    await settle(store, owner, await claim(store, owner), REFUSED);
    await accept(store, change('d', { body: told(true, 'resync', 2, 'd') }));
    t.same(await left(), [[2, 1]], 'of a dead letter');
    await accept(store, change('e', { body: told(true, 'entered', 1, 'e') }));
    await accept(store, change('e', { body: told(false, 'exited', 2, 'e') }));
    t.same(await left(), [[2, 2]], 'not in the other direction');
    await accept(store, change('f', { body: told(true, 'entered', 1, 'f') }));
    const [delivered] = await claim(store, owner);
    await accept(store, change('f', { body: told(true, 'resync', 2, 'f') }));
    await settle(store, owner, delivered ? [delivered] : [], DELIVERED);
    t.same(await left(), [[2, 2]], 'nor of a delivered one');
    const full = await fixture.open({ maxQueued: 1 });
    await accept(full, change('g', { destinations: ['full'], body: told(true, 'entered', 1, 'g') }));
    const held = await claim(full, owner, { destination: 'full' });
    await accept(full, message({ destinations: ['full'], body: '"other"' }));
    await accept(full, change('g', { destinations: ['full'], body: told(true, 'resync', 2, 'g') }));
    await settle(full, owner, held, RELEASE);
    const letters = await full.deadLetters({ destination: 'full', conflictPrefix: 'g', limit: 10 });
    t.same(hours(letters.map(({ body }) => body)), [[2, 1]], 'of one that was released, by one that is held out');
  },
  'keeps one of two changes of a key accepted by two processes at once': async (t, store, fixture) => {
    const other = await fixture.open();
    const owner = await store.join(TTL);
    for (let round = 0; round < 5; round += 1) {
      const batch = () => Array.from({ length: 10 }, (_, n) => change(`k${n}`));
      await Promise.all([accept(store, ...batch()), accept(other, ...batch().toReversed()), accept(store, ...batch())]);
      t.same(await backlogOf(store), { pending: 10, dead: 0 });
      const claims = await claim(store, owner);
      t.equal(new Set(claims.map(({ conflict }) => conflict)).size, 10);
      await settle(store, owner, claims, DELIVERED);
    }
  },
  'never loses or duplicates a newer change accepted while the older one is claimed or settled': async (
    t,
    store,
    fixture,
  ) => {
    const other = await fixture.open();
    const owner = await store.join(TTL);
    for (let round = 0; round < 20; round += 1) {
      const [taken] = await Promise.all([claim(store, owner), accept(other, change('k', { body: `"${round}"` }))]);
      await Promise.all([
        settle(store, owner, taken, round % 2 === 0 ? DELIVERED : retryAt(START)),
        accept(other, change('k', { body: `"${round} later"` })),
      ]);
      const last = await claim(store, owner);
      t.same(bodies(last), [`"${round} later"`], `round ${round}`);
      await settle(store, owner, last, DELIVERED);
      t.same(await backlogOf(store), { pending: 0, dead: 0 });
    }
  },
  'counts each delivery once in the progress of a run, whatever its outcome': async (t, store, fixture) => {
    const fence = await leaseOf(store);
    await store.saveRun(run(), fence);
    await store.saveRun(run({ id: 'run-2', startedAt: START + 1 }), fence);
    const step = { run: 'run-1', fence, cursor: '1', epoch: 0 };
    const keys = ['delivered', 'dead', 'superseded', 'retried', 'outlived', 'untried'];
    await store.accept({ messages: keys.map((key) => change(key, { userId: key })), step });
    await store.accept({ messages: [change('superseded')], step: { ...step, run: 'run-2' } });
    const owner = await store.join(TTL);
    const claims = await claim(store, owner);
    const of = (key: string) => claims.filter(({ conflict, run }) => conflict === key && run === 'run-1');
    t.same(await store.runProgress('run-1'), { deliveries: 6, untried: 5, delivered: 0, dead: 0, superseded: 1 });
    await settle(store, owner, of('delivered'), DELIVERED);
    await settle(store, owner, of('dead'), REFUSED);
    await settle(store, owner, of('retried'), retryAt(START + 1));
    await store.accept({ messages: [change('outlived')], step: { ...step, run: 'run-2' } });
    await settle(store, owner, of('outlived'), retryAt(START + 1));
    await settle(store, owner, of('untried'), RELEASE);
    t.same(await store.runProgress('run-1'), { deliveries: 6, untried: 1, delivered: 1, dead: 1, superseded: 2 });
    await fixture.advance(1_000);
    const retried = (await claim(store, owner)).filter(({ run }) => run === 'run-1');
    t.equal(retried.length, 2);
    await settle(store, owner, retried, DELIVERED);
    t.same(await store.runProgress('run-1'), { deliveries: 6, untried: 0, delivered: 3, dead: 1, superseded: 2 });
    t.same(await store.runProgress('nobody'), { deliveries: 0, untried: 0, delivered: 0, dead: 0, superseded: 0 });
  },
};
