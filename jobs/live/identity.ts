import { compareWhen, dayNumber, type LiveEvent, type When } from './event.ts';
import { addToFront } from './kept.ts';

/** `u:` and a user id, or `a:` and an anonymous one. */
export type RawId = string;

export const userRaw = (user: string): RawId => `u:${user}`;
export const anonymousRaw = (anonymous: string): RawId => `a:${anonymous}`;
export const isUser = (raw: RawId) => raw.startsWith('u:');
export const idOf = (raw: RawId) => raw.slice(2);

/** That an id was said to belong to a user. Of an anonymous id the earliest one decides, of a former user id the latest. */
export type Link = readonly [user: string, ...When];

/** Whom an event is of, as far as it says so itself. */
export function rawIdOf({ userId, anonymousId }: LiveEvent): RawId | null {
  if (userId !== null) return userRaw(userId);
  return anonymousId === null ? null : anonymousRaw(anonymousId);
}

/** Links that an event makes: each an id, and the user that it belongs to. */
export function linksIn(event: LiveEvent): readonly { readonly raw: RawId; readonly link: Link }[] {
  const { type, userId, anonymousId, previousId, timestamp, receivedAt, messageId } = event;
  if (userId === null) return [];
  const link: Link = [userId, timestamp, receivedAt, messageId];
  if (type === 'identify') return anonymousId === null ? [] : [{ raw: anonymousRaw(anonymousId), link }];
  if (type !== 'alias' || previousId === null) return [];
  const claim = { raw: anonymousRaw(previousId), link };
  return previousId === userId ? [claim] : [claim, { raw: userRaw(previousId), link }];
}

/** Adds a link; false where it says nothing new, even when the log has forgotten others. */
export function addLink(links: Link[], raw: RawId, link: Link): boolean {
  const sign = isUser(raw) ? -1 : 1;
  return addToFront(
    links,
    link,
    (one, other) =>
      one[0] === other[0] && dayNumber(one[2]) >= dayNumber(other[2]) && sign * compareLinks(one, other) <= 0,
  );
}

/** As JSON: a list for each user, so that it shows whether there are several. */
export function writeLinks(links: readonly Link[]): string {
  if (links.length === 0) return '[]';
  const byUser = Map.groupBy(links, ([user]) => user);
  return JSON.stringify([...byUser].map(([user, own]) => [user, ...own.map(([, ...when]) => when)]));
}

export function readLinks(text: string): Link[] {
  const byUser = JSON.parse(text) as readonly (readonly [string, ...When[]])[];
  return byUser.flatMap(([user, ...own]) => own.map((when): Link => [user, ...when]));
}

function compareLinks([, t1, r1, m1]: Link, [, t2, r2, m2]: Link): number {
  return compareWhen([t1, r1, m1], [t2, r2, m2]);
}

/** The link that counts: of an anonymous id the first, of a user id the latest. */
function decisive(raw: RawId, links: readonly Link[]): Link | null {
  const sign = isUser(raw) ? -1 : 1;
  let found: Link | null = null;
  for (const link of links) if (found === null || sign * compareLinks(link, found) < 0) found = link;
  return found;
}

/**
 * The user that an id belongs to in the end; null for an anonymous id of nobody.
 *
 * @param linksOf - the links of an id; all on the way have to be known
 */
export function personOf(raw: RawId, linksOf: (raw: RawId) => readonly Link[]): string | null {
  if (isUser(raw)) return canonical(idOf(raw), linksOf);
  const owner = decisive(raw, linksOf(raw));
  return owner && canonical(owner[0], linksOf);
}

/** Along the aliases to their end; in a circle the latest one decides. */
function canonical(user: string, linksOf: (raw: RawId) => readonly Link[]): string {
  const way = [user];
  const links: Link[] = [];
  for (;;) {
    const last = userRaw(way.at(-1) ?? user);
    const link = decisive(last, linksOf(last));
    if (link === null) return way.at(-1) ?? user;
    links.push(link);
    const back = way.indexOf(link[0]);
    if (back >= 0) return links.slice(back).toSorted(compareLinks).at(-1)?.[0] ?? user;
    way.push(link[0]);
  }
}
