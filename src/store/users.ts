import { createHmac } from 'node:crypto';
import type { MessageType } from '../message-types.ts';
import type { Claim } from './port.ts';

/** Users that a message is about: for an alias both ids. */
export function usersIn(type: MessageType | undefined, userId: string | null, body: string): string[] {
  const users = userId === null ? [] : [userId];
  if (type !== 'alias') return users;
  const former = (JSON.parse(body) as { readonly 'Previous ID'?: unknown })['Previous ID'];
  return typeof former === 'string' ? [...users, former] : users;
}

/**
 * Text in an alias's body for a user's former id. Bodies are written by JSON.stringify, so a text search is as exact as
 * parsing, in either database.
 */
export function aliasNeedles(users: readonly string[]): readonly string[] {
  return users.map((user) => `"Previous ID":${JSON.stringify(user)}`);
}

/** Text in a body for an anonymous id, likewise. */
export function anonymousNeedles(ids: readonly string[]): readonly string[] {
  return ids.map((id) => `"anonymousId":${JSON.stringify(id)}`);
}

/** Stands for a user of whom nothing else may be kept. @param scope - a source, or empty for every source */
export function userHash(key: string, scope: string, user: string): Buffer {
  return createHmac('sha256', key).update(`${scope}\0${user}`).digest();
}

type MessageSubject = Pick<Claim, 'type' | 'userId' | 'messageId' | 'body'>;

const NOBODY = '[user]';
/** Shorter ids also occur inside other words. */
const SHORTEST = 3;

/** The user that an attempt is logged for; null for deletion notices, whose users are to be forgotten. */
export function loggedUser({ type, userId }: Pick<Claim, 'type' | 'userId'>): string | null {
  return type === 'delete' ? null : userId;
}

/** The message id to log. A deletion finds attempts by their logged user, so an alias's former id must not be in it. */
export function loggedMessageId(claim: MessageSubject): string {
  return claim.type === 'alias' ? withoutUsers(claim.messageId, hiddenUsers(claim)) : claim.messageId;
}

/** An endpoint's response without the user of a notice or the former id of an alias: receivers like to repeat ids. */
export function loggedResponse(claim: MessageSubject, response: string | null): string | null {
  if (response === null || (claim.type !== 'delete' && claim.type !== 'alias')) return response;
  return withoutUsers(response, hiddenUsers(claim));
}

function hiddenUsers({ type, userId, body }: MessageSubject): readonly string[] {
  return type === 'delete' ? (userId === null ? [] : [userId]) : usersIn(type, null, body);
}

/** Text that may be JSON or part of a URL, without these users. */
export function withoutUsers(text: string, users: readonly string[]): string {
  return textForms(users).reduce((left, form) => left.replaceAll(form, NOBODY), text);
}

/** The forms in which a text may name these users. */
export function textForms(users: readonly string[]): readonly string[] {
  const forms = users
    .filter(({ length }) => length >= SHORTEST)
    .flatMap((user) => [user, JSON.stringify(user).slice(1, -1), encodeURIComponent(user.toWellFormed())]);
  return [...new Set(forms)];
}
