import * as z from 'zod';
import { reasons } from '../../../receivers/kinds.ts';
import { RollcallError } from '../../kernel/errors.ts';

export const time = z.iso.datetime().describe('ISO 8601, UTC.');
/** Why a change is sent (docs/wire.md). */
export const reason = z.enum(reasons);
export const reasonCounts = z.partialRecord(reason, z.int()).describe('Numbers of changes by reason.');
export const iso = (at: number): string => new Date(at).toISOString();
/** An instant in a query, as milliseconds since 1970. */
export const instant = z.iso
  .datetime({ offset: true })
  .or(z.iso.date())
  .transform((text) => Date.parse(text));

const MOST = 500;
const USUAL = 50;

export const paging = {
  limit: z.coerce.number().int().min(1).max(MOST).default(USUAL).describe('Rows of a page at most.'),
  cursor: z.string().max(500).optional().describe('`next` of the page before.'),
};

/** The longest id that a cursor holds whole, in UTF-16 units. With it, an address stays within servers' limits. */
const WHOLE_ID = 2_000;

export const pagingByUser = {
  ...paging,
  cursor: z.string().max(12_000).optional().describe('`next` of the page before.'),
};

/** The place to continue after this user. After an id too long for a cursor, ids with the same beginning are skipped. */
export function placeAfter(user: string): string {
  return user.length <= WHOLE_ID ? user : `${user.slice(0, WHOLE_ID).toWellFormed()}\u{10ffff}`;
}

/** @throws RollcallError `invalid_request` */
export const userOf = (cursor: string | undefined): string => placeOf(cursor, /^[^\0]+$/) ?? '';

/** A page. `next` is the cursor of the page after it, null on the last page. */
export function pageOf<T extends z.ZodType>(item: T) {
  return z.object({
    data: z.array(item),
    next: z
      .string()
      .nullable()
      .describe(
        'The `cursor` of the next page; null after the last. A page may be short or empty and not be the last.',
      ),
  });
}

export function cursorOf(place: string | number): string {
  return Buffer.from(String(place)).toString('base64url');
}

/** @throws RollcallError `invalid_request` */
export function placeOf(cursor: string | undefined, isPlace: RegExp): string | undefined {
  if (cursor === undefined) return undefined;
  const place = Buffer.from(cursor, 'base64url').toString();
  if (!isPlace.test(place)) throw new RollcallError('invalid_request', 'cursor: must be the "next" of an earlier page');
  return place;
}

export const done = z.object({ done: z.literal(true) });
export const DONE = { done: true } as const;

/** Notes of the configuration; absent where it has none. */
export const about = {
  description: z.string().optional(),
  owner: z.string().optional(),
  labels: z.record(z.string(), z.string()).optional(),
};
