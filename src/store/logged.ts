import { usersIn } from './alias.ts';
import type { Claim } from './port.ts';

type Subject = Pick<Claim, 'type' | 'userId' | 'messageId' | 'body'>;

const NOBODY = '[user]';
/** A shorter id stands in other words, too. */
const SHORTEST = 3;

/** Whom an attempt is logged for. A notice of a deletion is about someone who is to be forgotten: nobody. */
export function loggedUser({ type, userId }: Pick<Claim, 'type' | 'userId'>): string | null {
  return type === 'delete' ? null : userId;
}

/** A deletion finds attempts by the user they are logged for: the former id of an alias must not stand in them. */
export function loggedMessageId(claim: Subject): string {
  return claim.type === 'alias' ? without(claim.messageId, hiddenUser(claim)) : claim.messageId;
}

/** An endpoint's answer, without the user of a notice or the former id of an alias: receivers like to repeat ids. */
export function loggedResponse(claim: Subject, response: string | null): string | null {
  if (response === null || (claim.type !== 'delete' && claim.type !== 'alias')) return response;
  return without(response, hiddenUser(claim));
}

function hiddenUser({ type, userId, body }: Subject): string | null {
  return type === 'delete' ? userId : (usersIn(type, null, body)[0] ?? null);
}

function without(text: string, user: string | null): string {
  if (user === null || user.length < SHORTEST) return text;
  const forms = new Set([user, JSON.stringify(user).slice(1, -1), encodeURIComponent(user.toWellFormed())]);
  return [...forms].reduce((left, form) => left.replaceAll(form, NOBODY), text);
}
