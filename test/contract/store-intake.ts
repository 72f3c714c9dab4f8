import type { Cases } from './store.ts';
import {
  accept,
  backlogOf,
  change,
  claim,
  claimOne,
  codeOf,
  DELIVERED,
  leaseOf,
  message,
  REFUSED,
  run,
  settle,
} from './store-fixture.ts';

const HOUR = 3_600_000;

export const intakeCases: Cases = {
  'makes one delivery per destination of an accepted message, byte for byte': async (t, store, { clock }) => {
    const body = '{"a":"ü\\u0000 \\\\ \\" {}","b":"NULL"}';
    const given = message({ body, destinations: ['crm', 'lake'], type: 'page', userId: null, source: 'a"b,{c}' });
    t.same(await accept(store, given), { accepted: 1, duplicates: 0, suppressed: 0 });
    const owner = await store.join(20_000);
    for (const destination of ['crm', 'lake']) {
      const [delivery, ...others] = await claim(store, owner, { destination });
      t.equal(others.length, 0);
      t.match(delivery, {
        destination,
        body,
        source: 'a"b,{c}',
        messageId: given.messageId,
        type: 'page',
        userId: null,
        lane: 'live',
        conflict: null,
        run: null,
        tries: 0,
        acceptedAt: clock.now(),
        firstAt: null,
        marks: {},
        crashes: 0,
      });
      t.match(delivery?.id, /^[A-Za-z0-9-]{3,64}$/);
    }
  },
  'accepts an empty batch and unwanted messages, and leaves no delivery': async (t, store) => {
    t.same(await accept(store), { accepted: 0, duplicates: 0, suppressed: 0 });
    const given = message({ destinations: [] });
    t.same(await accept(store, given), { accepted: 1, duplicates: 0, suppressed: 0 });
    t.same(await accept(store, given), { accepted: 0, duplicates: 1, suppressed: 0 });
    t.same(await backlogOf(store), { pending: 0, dead: 0 });
  },
  'keeps accepted messages for a store that opens later': async (t, store, fixture) => {
    await accept(store, message(), message());
    await store.close();
    const again = await fixture.open();
    t.same(await backlogOf(again), { pending: 2, dead: 0 });
    t.equal((await claim(again, await again.join(20_000))).length, 2);
  },
  'never takes a client id for that of a change or a notice': async (t, store) => {
    const own = [change('k'), message({ type: 'delete', lane: 'deletion' })];
    for (const each of own) {
      const { messageId } = each;
      t.match(await accept(store, message({ messageId })), { accepted: 1 });
      t.match(await accept(store, each, message()), { accepted: 2 }, each.type);
      t.match(await accept(store, each), { duplicates: 1 }, 'it still counts once');
      t.match(await accept(store, message({ messageId })), { duplicates: 1 });
    }
  },
  'accepts a message id once per source, in one batch, in two, and in two processes at once': async (
    t,
    store,
    fixture,
  ) => {
    const other = await fixture.open();
    const given = message();
    t.same(await accept(store, given, given), { accepted: 1, duplicates: 1, suppressed: 0 });
    t.same(await accept(other, given), { accepted: 0, duplicates: 1, suppressed: 0 });
    t.same(await accept(store, { ...given, source: 'web' }), { accepted: 1, duplicates: 0, suppressed: 0 });
    const raced = Array.from({ length: 20 }, () => message());
    const results = await Promise.all(
      [store, other, store, other, store].map((each) => each.accept({ messages: raced, step: null })),
    );
    t.equal(
      results.reduce((sum, { accepted }) => sum + accepted, 0),
      20,
    );
    t.same(await backlogOf(store), { pending: 22, dead: 0 });
  },
  'answers each of several concurrent requests about its own messages': async (t, store) => {
    await store.suppress(['gone'], null, true);
    const twice = message();
    const many = Array.from({ length: 30 }, () => message());
    const [two, one, other, passedOver, none, large] = await Promise.all([
      accept(store, message({ destinations: ['crm', 'lake'] }), message({ body: '"ü"' })),
      accept(store, twice),
      accept(store, twice),
      accept(store, message({ userId: 'gone' }), message({ source: 'web', destinations: ['lake'] })),
      accept(store),
      accept(store, ...many),
    ]);
    t.same(two, { accepted: 2, duplicates: 0, suppressed: 0 });
    t.same([one, other].map(({ accepted }) => accepted).sort(), [0, 1]);
    t.same([one, other].map(({ duplicates }) => duplicates).sort(), [0, 1]);
    t.same(passedOver, { accepted: 1, duplicates: 0, suppressed: 1 });
    t.same(none, { accepted: 0, duplicates: 0, suppressed: 0 });
    t.same(large, { accepted: 30, duplicates: 0, suppressed: 0 });
    t.same(await backlogOf(store), { pending: 33, dead: 0 });
  },
  'remembers a message id for at least 24 hours despite pruning, and finally forgets it': async (t, store, fixture) => {
    await store.prune(0, 1_000);
    const given = message();
    await accept(store, given);
    for (let hour = 0; hour < 23; hour += 1) {
      await fixture.advance(HOUR);
      await store.prune(0, 1_000);
    }
    t.match(await accept(store, given), { duplicates: 1 });
    for (let hour = 0; hour < 75; hour += 1) {
      await fixture.advance(HOUR);
      await store.prune(0, 1_000);
    }
    t.match(await accept(store, given), { accepted: 1 });
  },
  'skips a suppressed user in one source or all until it ends, but not the deletion notice': async (
    t,
    store,
    fixture,
  ) => {
    const other = await fixture.open();
    await accept(other, message({ userId: 'early' }));
    await store.suppress(['u1'], ['shop'], true);
    await store.suppress(['u2'], null, true);
    const given = [
      message({ userId: 'u1' }),
      message({ userId: 'u1', source: 'web' }),
      message({ userId: 'u2', source: 'web' }),
      message({ userId: 'u2', type: 'delete', lane: 'deletion' }),
      message({ userId: null }),
      message({ userId: 'u3' }),
    ];
    t.same(await accept(other, ...given), { accepted: 4, duplicates: 0, suppressed: 2 });
    await store.suppress(['u1'], ['shop'], false);
    await store.suppress(['u2'], null, false);
    t.same(await accept(other, ...given), { accepted: 2, duplicates: 4, suppressed: 0 });
  },
  'keeps backlog counters in step with all changes of deliveries': async (t, store) => {
    const owner = await store.join(20_000);
    await accept(store, message(), message(), message(), message({ destinations: ['crm', 'lake'] }));
    const claims = await claim(store, owner);
    t.same(await backlogOf(store), { pending: 4, dead: 0 });
    await settle(store, owner, claims.slice(0, 2), DELIVERED);
    await settle(store, owner, claims.slice(2), REFUSED);
    t.same(await backlogOf(store), { pending: 0, dead: 2 });
    t.same(await backlogOf(store, 'lake'), { pending: 1, dead: 0 });
    const [first, second] = await store.deadLetters({ limit: 10 });
    await store.replay([{ id: first?.id ?? '', body: null }]);
    t.same(await backlogOf(store), { pending: 1, dead: 1 });
    await store.drop([second?.id ?? '']);
    t.same(await backlogOf(store), { pending: 1, dead: 0 });
  },
  'moves the cursor with a batch, and writes nothing for a stale fence or an unknown run': async (
    t,
    store,
    fixture,
  ) => {
    const fence = await leaseOf(store);
    await store.saveRun(run(), fence);
    const step = { run: 'run-1', fence, cursor: '500', epoch: 0 };
    await store.accept({ messages: [change('a'), change('b')], step });
    t.match(await store.run('run-1'), { cursor: '500', sent: 2 });
    t.match(await store.runProgress('run-1'), { deliveries: 2, untried: 2, delivered: 0 });
    const owner = await store.join(20_000);
    t.same(
      (await claim(store, owner)).map((each) => each.run),
      ['run-1', 'run-1'],
    );

    await fixture.advance(30_001);
    const other = await fixture.open();
    const newer = await leaseOf(other);
    t.ok(newer.token > fence.token);
    const stale = { messages: [message()], step: { ...step, cursor: '900', epoch: 0 } };
    t.equal(await codeOf(store.accept(stale)), 'fence_lost');
    t.equal(await codeOf(store.saveRun(run({ state: 'done' }), fence)), 'fence_lost');
    t.match(await store.run('run-1'), { cursor: '500', sent: 2, state: 'sending' });
    t.same(await backlogOf(store), { pending: 2, dead: 0 });
    const unknown = { messages: [message()], step: { run: 'nobody', fence: newer, cursor: '1', epoch: 0 } };
    t.equal(await codeOf(other.accept(unknown)), 'unknown_run');
    t.same(await backlogOf(store), { pending: 2, dead: 0 });
  },
  'delivers the batch of a repeated step once and moves the cursor': async (t, store) => {
    const fence = await leaseOf(store);
    await store.saveRun(run(), fence);
    const batch = [change('a'), change('b')];
    await store.accept({ messages: batch, step: { run: 'run-1', fence, cursor: '2', epoch: 0 } });
    const again = await store.accept({ messages: batch, step: { run: 'run-1', fence, cursor: '2', epoch: 0 } });
    t.same(again, { accepted: 0, duplicates: 2, suppressed: 0 });
    t.same(await backlogOf(store), { pending: 2, dead: 0 });
  },
  'knows a repeated batch of a plan by its cursor, and rejects it if the run has moved on': async (t, store) => {
    const fence = await leaseOf(store);
    await store.saveRun(run(), fence);
    const step = { run: 'run-1', fence, epoch: 0 };
    const first = { messages: [change('a'), change('b')], step: { ...step, after: null, cursor: '2' } };
    t.match(await store.accept(first), { accepted: 2, duplicates: 0 });
    t.match(await store.accept(first), { accepted: 0, duplicates: 2 });
    t.match(await store.run('run-1'), { cursor: '2', sent: 2 });
    const second = { messages: [change('c')], step: { ...step, after: '2', cursor: '3' } };
    t.match(await store.accept(second), { accepted: 1 });
    t.equal(await codeOf(store.accept(first)), 'fence_lost');
    const unknown = { messages: [message()], step: { ...step, run: 'nobody', after: null, cursor: '1' } };
    t.equal(await codeOf(store.accept(unknown)), 'unknown_run');
    t.match(await store.run('run-1'), { cursor: '3', sent: 3 });
    t.same(await backlogOf(store), { pending: 3, dead: 0 });
  },
  'finishes running work on close, and then refuses more': async (t, store, fixture) => {
    const begun = Array.from({ length: 30 }, () => accept(store, message()));
    await store.close();
    t.equal((await Promise.all(begun)).length, 30);
    t.equal(await codeOf(accept(store, message())), 'store_closed');
    t.equal(await codeOf(store.ping()), 'store_closed');
    t.same(await backlogOf(await fixture.open()), { pending: 30, dead: 0 });
  },
  'answers a ping': async (t, store) => {
    t.equal(await codeOf(store.ping()), null);
    const owner = await store.join(20_000);
    await accept(store, message());
    t.ok(await claimOne(store, owner));
  },
};
