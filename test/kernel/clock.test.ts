import t from 'tap';
import { systemClock } from '../../src/kernel/clock.ts';

t.test('lets all that is repeated come at the same moments', (t) => {
  let now = 0;
  let waits: number[] = [];
  const clock: typeof systemClock = {
    ...systemClock,
    monotonic: () => now,
    after(ms) {
      waits.push(ms);
      return () => {};
    },
  };
  const waitsAt = (time: number) => {
    now = time;
    waits = [];
    for (const ms of [1_000, 5_000, 30_000]) clock.roughly(ms, () => {});
    return waits;
  };
  t.same(waitsAt(12_345.678), [655, 2_655, 17_655]);
  t.same(waitsAt(13_000), [1_000, 2_000, 17_000]);
  t.same(waitsAt(14_950), [1_050, 5_050, 15_050], 'each time with a pause');
  t.end();
});
