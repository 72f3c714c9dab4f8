import type { Rig } from './rig.ts';

/** Waits until the attempt has begun, then lets its five seconds pass. */
export async function outlast(rig: Rig): Promise<void> {
  await rig.clock.timer(5_000, 2);
  rig.clock.advance(4_999);
  await rig.calm();
  if (rig.settlements.length > 0) throw new Error('It was settled before its time was over.');
  rig.clock.advance(1);
  await rig.settled(1);
}
