import type { Claim } from './port.ts';

type Subject = Pick<Claim, 'type' | 'userId'>;

const NOBODY = '[user]';

/** Whom an attempt is logged for. A notice of a deletion is about someone who is to be forgotten: nobody. */
export function loggedUser({ type, userId }: Subject): string | null {
  return type === 'delete' ? null : userId;
}

/** What an endpoint answered, without the user of a notice: receivers like to repeat ids. */
export function loggedResponse({ type, userId }: Subject, response: string | null): string | null {
  if (type !== 'delete' || response === null || userId === null) return response;
  const forms = new Set([userId, JSON.stringify(userId).slice(1, -1), encodeURIComponent(userId.toWellFormed())]);
  let text = response;
  for (const form of forms) if (form !== '') text = text.replaceAll(form, NOBODY);
  return text;
}
