import type { ChangeCause } from '../../src/membership-change.ts';
import type { LiveOrigin } from '../../src/store/live.ts';
import type { ChangeOrigin } from '../engines/port.ts';

/** What made a change, as its body says it; null if nothing is known. An event is named by its message id alone. */
export function originOf({ cause, changedAt }: LiveOrigin): ChangeOrigin | null {
  if (cause === null || changedAt === null) return null;
  const known = JSON.parse(cause) as ChangeCause;
  return { cause: 'messageId' in known ? { messageId: known.messageId } : known, changedAt };
}
