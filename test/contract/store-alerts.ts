import type { Alert } from '../../src/store/port.ts';
import type { Cases } from './store.ts';
import { codeOf, leaseOf } from './store-fixture.ts';

const TTL = 30_000;
const MINUTE = 60_000;

function alert(id: string, now: number, over: Partial<Alert> = {}): Alert {
  const about = {
    kind: 'endpointDead',
    subject: id,
    destination: 'crm',
    since: null,
    message: 'ü "\\ no answer',
  } as const;
  return {
    ...{ id, about, firstAt: now, openedAt: now, goneAt: null, closedAt: null, flaps: 2 },
    ...{ opening: { id: `n-${id}`, at: now, sent: false }, closing: null, isOver: false, ...over },
  };
}

export const alertCases: Cases = {
  'reads alerts as they were saved, from another process too': async (t, store, fixture) => {
    const fence = await leaseOf(store, 'alerts', TTL);
    const now = store.time.now();
    const pending = alert('b', now, { openedAt: null, opening: null });
    await store.saveAlerts([alert('a', now), pending], [], fence);
    const other = await fixture.open();
    t.same(await other.currentAlerts(now), [alert('a', now), pending]);
    const changed = { ...alert('a', now), goneAt: now + 1, flaps: 3, opening: { id: 'n-a', at: now, sent: true } };
    await store.saveAlerts([changed], ['b'], fence);
    t.same(await other.currentAlerts(now), [changed]);
    t.same(await store.alerts({ limit: 5 }), { alerts: [changed], next: null });
  },
  'saves alerts only for the lease holder, and one open alert per kind and subject': async (t, store, fixture) => {
    const fence = await leaseOf(store, 'alerts', TTL);
    const now = store.time.now();
    await store.saveAlerts([alert('a', now)], [], fence);
    const twin = alert('z', now, { about: alert('a', now).about });
    t.not(await codeOf(store.saveAlerts([twin], [], fence)), null);
    await fixture.advance(TTL + 1);
    const other = await fixture.open();
    const next = await leaseOf(other, 'alerts', TTL);
    t.equal(await codeOf(store.saveAlerts([], ['a'], fence)), 'fence_lost');
    t.equal((await other.currentAlerts(now)).length, 1);
    await other.saveAlerts([alert('a', now, { closedAt: now, isOver: true })], [], next);
    await other.saveAlerts([twin], [], next);
    t.same(
      (await store.currentAlerts(now)).map(({ id }) => id),
      ['a', 'z'],
    );
  },
  'pages opened alerts newest first, and prunes them once they are over': async (t, store, fixture) => {
    const fence = await leaseOf(store, 'alerts', 10 * MINUTE);
    const start = store.time.now();
    for (const id of ['a', 'b', 'c', 'd', 'e']) {
      const now = store.time.now();
      const over = id < 'c' ? { closedAt: now, isOver: true } : {};
      await store.saveAlerts([alert(id, now, { ...over, ...(id === 'd' ? { openedAt: null } : {}) })], [], fence);
      await fixture.advance(MINUTE);
    }
    const idsOf = async (filter: { isOpen?: boolean }) => {
      const found: string[] = [];
      let before: number | undefined;
      do {
        const page = await store.alerts({ ...filter, ...(before !== undefined && { before }), limit: 1 });
        found.push(...page.alerts.map(({ id }) => id));
        before = page.next ?? undefined;
      } while (before !== undefined);
      return found.join('');
    };
    t.same([await idsOf({}), await idsOf({ isOpen: true }), await idsOf({ isOpen: false })], ['ecba', 'ec', 'ba']);
    const current = async (since: number) => (await store.currentAlerts(since)).map(({ id }) => id).join('');
    t.same(
      [await current(start), await current(start + 1), await current(start + 2 * MINUTE)],
      ['abcde', 'bcde', 'cde'],
    );
    t.equal(await store.pruneAlerts(start + 1, 10), 1);
    t.equal(await store.pruneAlerts(start + 10 * MINUTE, 10), 1, 'what is open stays');
    t.equal(await idsOf({}), 'ec');
  },
};
