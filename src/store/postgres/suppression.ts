import type { NewMessage } from '../port.ts';
import { userHash, usersIn } from '../users.ts';
import { hash } from './arrays.ts';
import type { StoreContext } from './context.ts';
import type { DatabaseSession } from './database.ts';

export async function suppressed(
  { suppressionKey }: StoreContext,
  session: DatabaseSession,
  messages: readonly NewMessage[],
): Promise<ReadonlySet<NewMessage>> {
  const hashes = new Map<NewMessage, readonly Buffer[]>();
  for (const message of messages) {
    // A deletion notice is never suppressed.
    if (message.type === 'delete') continue;
    const users = usersIn(message.type, message.userId, message.body);
    if (users.length === 0) continue;
    hashes.set(
      message,
      users.flatMap((user) => ['', message.source].map((scope) => userHash(suppressionKey, scope, user))),
    );
  }
  const rows = await session.rows<[Buffer]>('SELECT hash FROM rollcall.suppression WHERE hash = ANY ($1::bytea[])', [
    hash([...hashes.values()].flat()),
  ]);
  const kept = new Set(rows.map(([found]) => found.toString('hex')));
  const isKept = (message: NewMessage) => hashes.get(message)?.some((each) => kept.has(each.toString('hex'))) ?? false;
  return new Set(kept.size === 0 ? [] : messages.filter(isKept));
}
