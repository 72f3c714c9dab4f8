import { createHmac } from 'node:crypto';
import { MESSAGE_TYPES } from '../../message.ts';
import { usersIn } from '../alias.ts';
import type { NewMessage } from '../port.ts';
import { hash } from './arrays.ts';
import type { Context } from './context.ts';
import type { Session } from './database.ts';

/** A deletion notice is never suppressed. */
const NOTICE = MESSAGE_TYPES.indexOf('delete');

/** Scope is a source, or empty for every source. */
export function hashOf(key: string, scope: string, user: string): Buffer {
  return createHmac('sha256', key).update(`${scope}\0${user}`).digest();
}

/** Those of `messages` whose users are to be kept out. */
export async function suppressed(
  { suppressionKey }: Context,
  session: Session,
  messages: readonly NewMessage[],
): Promise<ReadonlySet<NewMessage>> {
  const hashes = new Map<NewMessage, readonly Buffer[]>();
  for (const message of messages) {
    if (MESSAGE_TYPES.indexOf(message.type) === NOTICE) continue;
    const users = usersIn(message.type, message.userId, message.body);
    if (users.length === 0) continue;
    hashes.set(
      message,
      users.flatMap((user) => ['', message.source].map((scope) => hashOf(suppressionKey, scope, user))),
    );
  }
  const rows = await session.rows<[Buffer]>('SELECT hash FROM rollcall.suppression WHERE hash = ANY ($1::bytea[])', [
    hash([...hashes.values()].flat()),
  ]);
  const kept = new Set(rows.map(([found]) => found.toString('hex')));
  const isKept = (message: NewMessage) => hashes.get(message)?.some((each) => kept.has(each.toString('hex'))) ?? false;
  return new Set(kept.size === 0 ? [] : messages.filter(isKept));
}

export async function suppress(
  { db, suppressionKey }: Context,
  users: readonly string[],
  sources: readonly string[] | null,
  on: boolean,
): Promise<void> {
  const hashes = users.flatMap((user) => (sources ?? ['']).map((scope) => hashOf(suppressionKey, scope, user)));
  await db.run(
    on
      ? 'INSERT INTO rollcall.suppression SELECT DISTINCT h FROM unnest($1::bytea[]) AS h ORDER BY h ON CONFLICT DO NOTHING'
      : 'DELETE FROM rollcall.suppression WHERE hash = ANY ($1::bytea[])',
    [hash(hashes)],
  );
}
