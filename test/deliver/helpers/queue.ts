import type { QueueHooks } from '../../../src/deliver/destination-queue.ts';
import { type Claim, NO_MARKS, type Settlement } from '../../../src/store/port.ts';
import type { ManualClock } from '../../helpers/clock.ts';

/** Claims of first tries, as a store gives them. */
export function claims(count: number, name: string, over: Partial<Claim> = {}): Claim[] {
  const message = { source: 'shop', messageId: 'm', type: 'track', userId: null, body: '{}', conflict: null } as const;
  const untried = { run: null, tries: 0, acceptedAt: 0, firstAt: null, marks: NO_MARKS, crashes: 0 } as const;
  return Array.from({ length: count }, (_, index) => ({
    ...{ id: `${name}-${index}`, destination: 'crm', lane: 'live', ...message, ...untried },
    ...over,
  }));
}

/** A queue's needs besides a way to post. */
export function queueHooks(clock: ManualClock, onSettled: (settlement: Settlement) => void): Omit<QueueHooks, 'post'> {
  return {
    clock,
    wallTime: () => clock.now(),
    batchMemory: { bytes: 0 },
    servedSince: () => 0,
    holdsClaims: () => true,
    isStopping: () => false,
    onSettled,
    record: async () => true,
    onSuspect: () => {},
    onUndeliverable: () => {},
    onEndpointChange: () => {},
    onShortage: () => {},
    onRoom: () => {},
  };
}
