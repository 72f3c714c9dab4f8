import t from 'tap';
import { sharedLook } from '../../src/admin/shared-look.ts';

t.test('serves calls during a read by the next read', async (t) => {
  const looks: PromiseWithResolvers<number>[] = [];
  const look = sharedLook(() => {
    const begun = Promise.withResolvers<number>();
    looks.push(begun);
    return begun.promise;
  });
  const first = look();
  const later = [look(), look(), look()];
  t.equal(looks.length, 1);
  looks[0]?.resolve(1);
  t.equal(await first, 1);
  const last = look();
  t.equal(looks.length, 2);
  looks[1]?.resolve(2);
  t.same(await Promise.all(later), [2, 2, 2]);
  looks[2]?.resolve(3);
  t.equal(await last, 3, 'which began after it was asked for');
});

t.test('fails only the calls that share a failed read', async (t) => {
  let looks = 0;
  const look = sharedLook(async () => {
    looks += 1;
    if (looks === 1) throw new Error('the store is away');
    return 'well';
  });
  const [first, next] = [look(), look()];
  await t.rejects(first, /away/);
  t.equal(await next, 'well');
});
