import { isPlaceholder } from '../../src/kernel/placeholders.ts';
import { compareWhen, dayNumber, type LiveEvent, likelyTime, type When } from './event.ts';
import { addToFront } from './kept.ts';

/** A user id with the prefix `u:`, or an anonymous id with `a:`. */
export type RawId = string;

export const userRaw = (user: string): RawId => `u:${user}`;
export const anonymousRaw = (anonymous: string): RawId => `a:${anonymous}`;
export const isUser = (raw: RawId) => raw.startsWith('u:');
export const idOf = (raw: RawId) => raw.slice(2);

/** A statement that an id belongs to a user. For an anonymous id the earliest one counts, for a former user id the latest. */
export type Link = readonly [user: string, ...When];

/** The id in an event itself, if any. */
export function rawIdOf({ userId, anonymousId }: LiveEvent): RawId | null {
  if (userId !== null) return userRaw(userId);
  return anonymousId === null ? null : anonymousRaw(anonymousId);
}

/**
 * The links that an event makes: an id each, and the user to whom it belongs.
 *
 * @param keep - how long the log keeps events, in milliseconds
 */
export function linksIn(event: LiveEvent, keep: number): readonly { readonly raw: RawId; readonly link: Link }[] {
  const { type, userId, anonymousId, previousId, timestamp, receivedAt, messageId } = event;
  const linked = type === 'identify' ? anonymousId : type === 'alias' ? previousId : null;
  if (userId === null || linked === null || isPlaceholder(userId) || isPlaceholder(linked)) return [];
  const link: Link = [userId, likelyTime(timestamp, receivedAt, keep), receivedAt, messageId];
  if (type === 'identify') return [{ raw: anonymousRaw(linked), link }];
  const claim = { raw: anonymousRaw(linked), link };
  return linked === userId ? [claim] : [claim, { raw: userRaw(linked), link }];
}

/** Adds a link. False if it adds nothing, even once the log has forgotten others. */
export function addLink(links: Link[], raw: RawId, link: Link): boolean {
  const sign = isUser(raw) ? -1 : 1;
  return addToFront(
    links,
    link,
    (one, other) =>
      one[0] === other[0] && dayNumber(one[2]) >= dayNumber(other[2]) && sign * compareLinks(one, other) <= 0,
  );
}

/** Writes JSON with a list for each user, which shows if there are several. */
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

/** The link that counts: for an anonymous id the first, for a user id the latest. */
function decisive(raw: RawId, links: readonly Link[]): Link | null {
  const sign = isUser(raw) ? -1 : 1;
  let found: Link | null = null;
  for (const link of links) if (found === null || sign * compareLinks(link, found) < 0) found = link;
  return found;
}

/**
 * The user to whom an id finally belongs; null for an anonymous id without a user.
 *
 * @param linksOf - the links of an id. All ids on the way must be known.
 */
export function personOf(raw: RawId, linksOf: (raw: RawId) => readonly Link[]): string | null {
  if (isUser(raw)) return canonical(idOf(raw), linksOf);
  const owner = decisive(raw, linksOf(raw));
  return owner && canonical(owner[0], linksOf);
}

/** Follows the aliases to their end. In a circle the latest one decides. */
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
