import fc from 'fast-check';
import t from 'tap';
import { PassingMap } from '../../receivers/core/passing.ts';

t.test('has the entries of a Map, however many were deleted before', async (t) => {
  const steps = fc.array(fc.tuple(fc.constantFrom('set', 'delete'), fc.nat(40)), { maxLength: 3_000, size: 'max' });
  fc.assert(
    fc.property(steps, (steps) => {
      const passing = new PassingMap<number, number>();
      const model = new Map<number, number>();
      for (const [place, [verb, key]] of steps.entries()) {
        for (const each of [passing, model]) verb === 'set' ? each.set(key, place) : each.delete(key);
      }
      return Array.from({ length: 41 }, (_, key) => passing.get(key) === model.get(key)).every(Boolean);
    }),
  );
  t.pass();
});
