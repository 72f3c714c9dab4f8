import assert from 'node:assert/strict';
import { type Change, LeaseLost, type Opened, type Opening, type ReceiverStore } from './store.ts';

/** An empty store whose clock moves only by `advance`. */
export interface StoreFixture {
  readonly store: ReceiverStore;
  /** The same store as seen by another process; for a store of one process the same object. */
  readonly other: ReceiverStore;
  /** Advances the clock by milliseconds. */
  advance(ms: number): void | Promise<void>;
}

/** A test that every store must pass. */
export interface StoreCase {
  /** The name of the test, a sentence. */
  readonly name: string;
  /** Rejects with an `AssertionError` if the store fails the test. Works in any test runner. */
  run(fixture: StoreFixture): Promise<void>;
}

/** A fixture for stores whose `transaction` includes a handler's writes. */
export interface TransactionFixture extends StoreFixture {
  /** Writes a text in the transaction of an opening, then throws `failure` in it, if given. */
  write(store: ReceiverStore, opening: Opening, text: string, failure?: Error): Promise<void>;
  /** The texts written, in order. */
  written(): Promise<readonly string[]>;
}

/** A test that every store with `transaction` must pass. */
export interface TransactionCase {
  readonly name: string;
  run(fixture: TransactionFixture): Promise<void>;
}

const caseOf = <Fixture>(name: string, run: (fixture: Fixture) => Promise<void>) => ({ name, run });

let holders = 0;

function opening(key: string | undefined, change?: Change): Opening {
  holders += 1;
  return { key, change, holder: `holder-${holders}` };
}

const change = (sequence: number, name = 'club of u1'): Change => ({ name, sequence });

/** Text that no database can compress. */
function incompressible(length: number): string {
  const bytes = crypto.getRandomValues(new Uint8Array(length));
  return Array.from(bytes, (byte) => String.fromCharCode(0x20 + (byte % 95))).join('');
}

async function begins(store: ReceiverStore, given: Opening, expected: Opened, message?: string): Promise<void> {
  assert.equal(await store.begin(given), expected, message);
}

async function handles(store: ReceiverStore, given: Opening): Promise<void> {
  await begins(store, given, 'new');
  assert.equal(await store.done(given), true);
}

/** Cases that a store for receivers must pass, with one process or several. */
export const storeCases: readonly StoreCase[] = [
  caseOf('a request that was handled stays handled', async ({ store, other }) => {
    await handles(store, opening('a'));
    for (const each of [store, other]) await begins(each, opening('a'), 'done');
    await begins(store, opening('b'), 'new');
  }),
  caseOf('a request that failed is new again', async ({ store, other }) => {
    const first = opening('a', change(3));
    await begins(store, first, 'new');
    await store.release(first);
    await handles(other, opening('a', change(3)));
  }),
  caseOf(
    'of two that begin the same request one gets it, and the other knows that it is at work',
    async ({ store, other }) => {
      const states = await Promise.all([store, other, store, other].map((each) => each.begin(opening('a'))));
      assert.deepEqual(states.toSorted(), ['new', 'running', 'running', 'running']);
    },
  ),
  caseOf(
    'of two that begin changes of one name one gets its turn, and those of other names are not kept waiting',
    async ({ store, other }) => {
      const states = await Promise.all([
        store.begin(opening('a', change(1))),
        other.begin(opening('b', change(2))),
        store.begin(opening('c', change(1, 'club of u2'))),
      ]);
      assert.equal(states.filter((state) => state === 'busy').length, 1);
      assert.equal(states[2], 'new');
    },
  ),
  caseOf('a turn is free again once its change is handled or has failed', async ({ store, other }) => {
    const first = opening('a', change(1));
    await begins(store, first, 'new');
    await begins(other, opening('b', change(2)), 'busy');
    await store.release(first);
    const second = opening('b', change(2));
    await begins(other, second, 'new');
    assert.equal(await other.done(second), true);
    await begins(store, opening('c', change(3)), 'new');
  }),
  caseOf('who waits for a turn holds nothing of the request', async ({ store, other }) => {
    const first = opening('a', change(1));
    await begins(store, first, 'new');
    await begins(other, opening('b', change(2)), 'busy');
    await store.done(first);
    await begins(store, opening('b', change(2)), 'new');
  }),
  caseOf(
    'a change older than one that was handled is stale, an equal one is done, and nothing of either is held',
    async ({ store, other }) => {
      await handles(store, opening('a', change(5)));
      await begins(other, opening('b', change(4)), 'stale');
      await begins(other, opening('c', change(5)), 'done');
      await handles(store, opening('c', change(6)));
      await begins(store, opening('e', change(5)), 'stale');
      await handles(other, opening('b', change(7)));
      await handles(store, opening('f', change(1, 'club of u2')));
    },
  ),
  caseOf("a user's deletion does not let in an older change that comes right after it", async ({ store, other }) => {
    const name = JSON.stringify(['|', 'audience', 'club', 'u1']);
    await handles(store, opening('a', change(5, name)));
    await handles(other, { ...opening('b'), deletes: { scope: '|', userId: 'u1' } });
    await begins(store, opening('c', change(4, name)), 'stale');
    await handles(store, opening('d', change(6, name)));
    await begins(other, opening('e', change(5, name)), 'stale');
  }),
  caseOf('a change that failed has not moved its sequence', async ({ store, other }) => {
    const first = opening('a', change(9));
    await begins(store, first, 'new');
    await store.release(first);
    await handles(other, opening('b', change(2)));
  }),
  caseOf('changes are kept in order without a key too', async ({ store }) => {
    await handles(store, opening(undefined, change(2)));
    await begins(store, opening(undefined, change(1)), 'stale');
  }),
  caseOf('what a crashed process began is free after the lease, and not before', async ({ store, other, advance }) => {
    await begins(store, opening('a', change(1)), 'new');
    await advance(store.lease - 1);
    await begins(other, opening('a', change(1)), 'running');
    await begins(other, opening('b', change(2)), 'busy');
    await advance(1);
    await handles(other, opening('b', change(2)));
    await begins(other, opening('a', change(1)), 'stale');
  }),
  caseOf('a renewed lease holds for longer', async ({ store, other, advance }) => {
    const first = opening('a', change(1));
    await begins(store, first, 'new');
    await advance(store.lease - 1);
    assert.equal(await store.renew(first), true);
    await advance(store.lease - 1);
    await begins(other, opening('a', change(1)), 'running');
    assert.equal(await store.done(first), true);
  }),
  caseOf(
    'who lost the lease can neither renew nor end it, and moves no sequence',
    async ({ store, other, advance }) => {
      const late = opening('a', change(8));
      await begins(store, late, 'new');
      await advance(store.lease);
      const second = opening('a', change(8));
      await begins(other, second, 'new');
      assert.equal(await store.renew(late), false);
      await store.release(late);
      await begins(store, opening('a', change(8)), 'running', 'a late release frees nothing of another');
      assert.equal(await store.done(late), false);
      await begins(store, opening('a', change(8)), 'running', 'a late end ends nothing of another');
      await other.release(second);
      await handles(store, opening('b', change(3)));
    },
  ),
  caseOf('keys and names may be any text', async ({ store }) => {
    const texts = ['__proto__', "o'clock; drop", 'ü€😀', '[1,"x"]', 'a'.repeat(2_000), 'a\0b'];
    for (const text of [...texts, incompressible(20_000)]) {
      await handles(store, opening(text, change(1, text)));
      await begins(store, opening(text), 'done');
      await begins(store, opening(`${text}2`, change(0, text)), 'stale');
      await handles(store, opening(`${text}3`, change(0, `${text}3`)));
    }
  }),
  caseOf('a sequence may be as large as a double counts', async ({ store }) => {
    await handles(store, opening('a', change(Number.MAX_SAFE_INTEGER - 1)));
    await begins(store, opening('b', change(Number.MAX_SAFE_INTEGER - 2)), 'stale');
    await handles(store, opening('c', change(Number.MAX_SAFE_INTEGER)));
  }),
];

/** Cases that the `transaction` of a store must pass. */
export const transactionCases: readonly TransactionCase[] = [
  caseOf(
    'what is written in the transaction and the end of the request happen together, also if the process then ends',
    async ({ store, other, write, written }) => {
      const first = opening('a', change(4));
      await begins(store, first, 'new');
      await write(store, first, 'entered');
      assert.deepEqual(await written(), ['entered']);
      await begins(other, opening('a', change(4)), 'done');
      await begins(other, opening('b', change(3)), 'stale');
    },
  ),
  caseOf(
    'a transaction that fails writes nothing, and the request is tried again',
    async ({ store, other, write, written }) => {
      const first = opening('a', change(4));
      await begins(store, first, 'new');
      const failure = new Error('boom');
      await assert.rejects(write(store, first, 'entered', failure), failure);
      assert.deepEqual(await written(), []);
      await begins(other, opening('b', change(3)), 'busy');
      await store.release(first);
      const second = opening('a', change(4));
      await begins(other, second, 'new');
      await write(other, second, 'entered');
      assert.deepEqual(await written(), ['entered']);
    },
  ),
  caseOf(
    'who lost the lease writes nothing, before and after the other one has ended',
    async ({ store, other, advance, write, written }) => {
      const late = opening('a', change(1));
      await begins(store, late, 'new');
      await advance(store.lease);
      const newer = opening('b', change(2));
      await begins(other, newer, 'new');
      await assert.rejects(write(store, late, 'entered'), LeaseLost);
      await write(other, newer, 'left');
      await assert.rejects(write(store, late, 'entered'), LeaseLost);
      assert.equal(await other.done(newer), true);
      await assert.rejects(write(store, late, 'entered'), LeaseLost);
      assert.deepEqual(await written(), ['left']);
    },
  ),
  caseOf('a lease that ended holds as long as nobody else has begun', async ({ store, advance, write, written }) => {
    const slow = opening('a', change(1));
    await begins(store, slow, 'new');
    await advance(store.lease * 2);
    await write(store, slow, 'entered');
    assert.deepEqual(await written(), ['entered']);
  }),
  caseOf(
    'after the transaction the request stays handled, whether its handler then ends well or fails',
    async ({ store, other, write }) => {
      for (const [key, end] of [
        ['a', async (each: Opening) => assert.equal(await store.done(each), true)],
        ['b', async (each: Opening) => store.release(each)],
      ] as const) {
        const first = opening(key, change(1, key));
        await begins(store, first, 'new');
        await write(store, first, 'entered');
        await end(first);
        await begins(other, opening(key, change(1, key)), 'done');
        await handles(other, opening(`${key} later`, change(2, key)));
      }
    },
  ),
  caseOf(
    'two transactions of changes of one name never overlap, and the later sequence is written last',
    async ({ store, other, advance, write, written }) => {
      const early = opening('a', change(1));
      await begins(store, early, 'new');
      await advance(store.lease);
      const newer = opening('b', change(2));
      await begins(other, newer, 'new');
      const outcomes = await Promise.allSettled([write(store, early, 'entered'), write(other, newer, 'left')]);
      assert.deepEqual(
        outcomes.map(({ status }) => status),
        ['rejected', 'fulfilled'],
      );
      assert.deepEqual(await written(), ['left']);
    },
  ),
];
