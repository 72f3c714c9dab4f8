import t from 'tap';
import { FairLimit } from '../../src/collect/fair-limit.ts';

/** Starts work that ends when it is told to, and notes who was let in. */
function started(limit: FairLimit) {
  const order: string[] = [];
  const ends: (() => void)[] = [];
  const come = (party: string, weight = 1) =>
    limit.pass(party, weight, () => {
      order.push(party);
      return new Promise<void>((resolve) => ends.push(resolve));
    });
  const end = async (count: number) => {
    for (const done of ends.splice(0, count)) done();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { order, come, end };
}

t.test('lets a party with little work wait for only one turn of another', async (t) => {
  const { order, come, end } = started(new FairLimit(2));
  const flood = Array.from({ length: 20 }, () => come('flood'));
  const others = [come('a'), come('b'), come('a')];
  t.strictSame(order, ['flood', 'flood']);
  await end(2);
  await end(2);
  await end(2);
  t.strictSame(order.slice(2), ['flood', 'a', 'b', 'flood', 'a', 'flood']);
  for (let n = 0; n < 20; n += 1) await end(2);
  await Promise.all([...flood, ...others]);
  t.equal(order.length, 23);
});

t.test('runs work heavier than the limit alone', async (t) => {
  const { order, come, end } = started(new FairLimit(10));
  const all = [come('a', 4), come('heavy', 50), come('b', 4), come('c', 4)];
  t.strictSame(order, ['a'], 'nobody overtakes it');
  await end(1);
  t.strictSame(order, ['a', 'heavy']);
  await end(1);
  t.strictSame(order, ['a', 'heavy', 'b', 'c']);
  await end(2);
  await Promise.all(all);
});

t.test('frees the slot of a failed job', async (t) => {
  const limit = new FairLimit(1);
  const failed = limit.pass('a', 1, async () => {
    throw new Error('no');
  });
  const next = limit.pass('b', 1, async () => 'done');
  await t.rejects(failed, { message: 'no' });
  t.equal(await next, 'done');
});
