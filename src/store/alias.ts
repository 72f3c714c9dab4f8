import type { MessageType } from '../message-types.ts';

/**
 * Text that the body of an alias has of a user's former id. Bodies are written by JSON.stringify, so that looking for the
 * text tells as much as parsing it, in either database.
 */
export function aliasNeedles(users: readonly string[]): readonly string[] {
  return users.map((user) => `"Previous ID":${JSON.stringify(user)}`);
}

/** The users that a message is about: of an alias both ids. */
export function usersIn(type: MessageType | undefined, userId: string | null, body: string): string[] {
  const users = userId === null ? [] : [userId];
  if (type !== 'alias') return users;
  const former = (JSON.parse(body) as { readonly 'Previous ID'?: unknown })['Previous ID'];
  return typeof former === 'string' ? [...users, former] : users;
}
