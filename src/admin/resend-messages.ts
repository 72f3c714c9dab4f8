import type { CurrentBody } from '../../jobs/index.ts';
import { RollcallError } from '../kernel/errors.ts';
import type { DeadLetter, KeptMessage, Replay, Store } from '../store/port.ts';

type Sendable = Pick<KeptMessage, 'id' | 'state' | 'destination' | 'conflict' | 'messageId' | 'body'>;

export interface ResendOptions {
  readonly store: Pick<Store, 'message' | 'replay' | 'deliverAgain'>;
  readonly currentBodies: (
    letters: readonly Pick<DeadLetter, 'destination' | 'conflict' | 'messageId' | 'body'>[],
  ) => Promise<readonly CurrentBody[]>;
}

interface ResendResult {
  readonly resent: number;
  /** Membership changes for which a newer one waits, and messages of people who are being deleted. */
  readonly superseded: number;
}

/**
 * Send messages again, by the ids of their deliveries: delivered ones as new deliveries, dead ones as `dead-letters replay`
 * does. Membership changes are sent with their current value.
 *
 * @throws RollcallError `not_found` if a body is missing, `invalid_request` if one still waits; then nothing is sent
 */
export async function resendMessages(ids: readonly string[], options: ResendOptions): Promise<ResendResult> {
  const { store, currentBodies } = options;
  const messages: Sendable[] = [];
  for (const id of ids) messages.push(sendable(id, await store.message(id)));
  const bodies = await currentBodies(messages);
  const replays = messages.map(({ id }, place): Replay => {
    const body = bodies[place] ?? null;
    if (body instanceof RollcallError) throw body;
    return { id, body };
  });
  const isDead = (_: unknown, place: number) => messages[place]?.state === 'dead';
  const dead = replays.filter(isDead);
  const delivered = replays.filter((each, place) => !isDead(each, place));
  const resent =
    (dead.length > 0 ? await store.replay(dead) : 0) + (delivered.length > 0 ? await store.deliverAgain(delivered) : 0);
  return { resent, superseded: replays.length - resent };
}

function sendable(id: string, message: KeptMessage | null): Sendable {
  if (message === null) {
    const why = `No message ${id} is kept: the id is unknown, or it was delivered longer ago than messages.keep (0 unless set).`;
    throw new RollcallError('not_found', why);
  }
  if (message.state === 'waiting') {
    throw new RollcallError('invalid_request', `${id} is still on its way to ${message.destination}.`);
  }
  return message;
}
