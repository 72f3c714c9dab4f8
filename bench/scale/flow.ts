import type { Part } from '../harness.ts';
import { BATCH } from './work.ts';

/**
 * Keeps `onTheirWay` messages between the processes that take them in, in turn, and the sink: for each batch that has come
 * out, one goes in. Resolves once `count` more have come out.
 *
 * @param perSecond - messages that go in, however many come out
 */
export function flow(
  drivers: readonly Part[],
  sink: Part,
  count: number,
  { onTheirWay, perSecond }: { onTheirWay: number; perSecond?: number | undefined },
): Promise<void> {
  const batches = Math.ceil(count / BATCH);
  let entered = 0;
  let left = 0;
  const enter = () => {
    if (entered >= batches) return;
    drivers[entered % drivers.length]?.process.send('enqueue');
    entered += 1;
  };
  return new Promise((resolve) => {
    const started = performance.now();
    const timer = setInterval(() => {
      const due = ((performance.now() - started) / 1_000) * (perSecond ?? 0);
      while (entered < batches && entered * BATCH < due) enter();
    }, 10);
    const onBatch = () => {
      left += 1;
      if (perSecond === undefined) enter();
      if (left < batches) return;
      clearInterval(timer);
      sink.process.off('message', onBatch);
      resolve();
    };
    sink.process.on('message', onBatch);
    if (perSecond === undefined) for (let n = 0; n < onTheirWay / BATCH; n += 1) enter();
  });
}
