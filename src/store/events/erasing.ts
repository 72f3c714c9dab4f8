import type { ErasedIds, IdentityLinks } from '../deleted-ids.ts';
import type { LogFile } from '../event-log.ts';
import { COLUMNS } from './columns.ts';
import type { Workbench } from './parquet.ts';
import { identityLinks } from './views.ts';

interface LinkQueries {
  /** Rows of (former id, user), for `IdentityLinks.aliases`. */
  readonly aliases: string;
  /** Rows of (anonymous id, user), for `owners`. */
  readonly owners: string;
  /** Rows of (id, true if it is a user's), for `uses`. */
  readonly uses: string;
}

/**
 * Return queries for the links of a log, for both databases.
 *
 * @param events - a FROM item with the column `likely_at`
 * @param isAsked - a condition: a column has one of the ids asked about
 */
export function linkQueries(events: string, binary: string, isAsked: (column: string) => string): LinkQueries {
  const links = identityLinks(events, binary);
  const order = (direction: string) =>
    `"timestamp" ${direction}, received_at ${direction}, message_id${binary} ${direction}`;
  return {
    aliases: `SELECT id, user_id FROM (
        SELECT DISTINCT ON (id) * FROM (${links}) AS said WHERE kind = 'alias' AND id <> user_id ORDER BY id, ${order('DESC')}
      ) AS latest ORDER BY ${order('ASC')}`,
    owners: `SELECT id, user_id FROM (
        SELECT DISTINCT ON (id) * FROM (${links}) AS said ORDER BY id, ${order('ASC')}
      ) AS earliest WHERE ${isAsked('id')} OR ${isAsked('user_id')}`,
    uses: `SELECT DISTINCT user_id, TRUE FROM ${events} WHERE ${isAsked('user_id')}
      UNION ALL SELECT DISTINCT anonymous_id, FALSE FROM ${events} WHERE ${isAsked('anonymous_id')}`,
  };
}

export function usesOf(rows: readonly (readonly unknown[])[]): Awaited<ReturnType<IdentityLinks['uses']>> {
  const ids = (isUser: boolean) => new Set(rows.flatMap(([id, role]) => (role === isUser ? String(id) : [])));
  return { users: ids(true), anonymous: ids(false) };
}

const ASKED = 'asked_ids';

/** @param events - a FROM item with the column `likely_at` */
export function linksInFiles(bench: Workbench, events: string): IdentityLinks {
  const { aliases, owners, uses } = linkQueries(events, '', (column) => `${column} IN (SELECT id FROM ${ASKED})`);
  const pairs = async (query: string) =>
    (await bench.rows(query)).map(([id, user]) => [String(id), String(user)] as const);
  return {
    aliases: () => pairs(aliases),
    owners: async (ids) => {
      await bench.list(ASKED, ids);
      return pairs(owners);
    },
    uses: async (ids) => {
      await bench.list(ASKED, ids);
      return usesOf(await bench.rows(uses));
    },
  };
}

/** Return the ids in files, each once, by role. */
export async function idsIn(bench: Workbench, files: readonly LogFile[]) {
  const events = await bench.files(files);
  const ids = async (column: string) => {
    const of = (name: string) => `SELECT ${name} AS id FROM ${events} WHERE ${name} IS NOT NULL`;
    return (await bench.rows(`${of(column)} UNION ${of('previous_id')}`)).map(([id]) => String(id));
  };
  return { users: await ids('user_id'), anonymous: await ids('anonymous_id') };
}

/** SQL for the events of a deletion. */
export interface ErasingSql {
  /** Condition: nothing of the event stays. */
  readonly isGone: string;
  /** Condition: it is somebody else's, and loses its anonymous id. */
  readonly losesId: string;
}

/** @param has - SQL for: a column has one of the ids of this role */
export function erasingSql(has: (column: string, role: keyof ErasedIds) => string): ErasingSql {
  const isAlias = `type = 'alias' AND ${has('previous_id', 'users')} AND ${has('previous_id', 'anonymous')}`;
  const isAnonymous = has('anonymous_id', 'anonymous');
  return {
    isGone: `(${has('user_id', 'users')} OR (${isAlias}) OR (user_id IS NULL AND ${isAnonymous}))`,
    losesId: `(user_id IS NOT NULL AND NOT ${has('user_id', 'users')} AND ${isAnonymous})`,
  };
}

/** Return conditions for files' events, of tables that hold the ids. @param until - only for events received by then */
export async function erasingIn(bench: Workbench, name: string, ids: ErasedIds, until?: number): Promise<ErasingSql> {
  for (const role of ['users', 'anonymous'] as const) await bench.list(`${role}${name}`, ids[role]);
  const { isGone, losesId } = erasingSql((column, role) => `${column} IN (SELECT id FROM ${role}${name})`);
  const inTime = until === undefined ? 'true' : `received_at <= make_timestamp_ms(${until})`;
  return { isGone: `(${inTime} AND ${isGone})`, losesId: `(${inTime} AND ${losesId})` };
}

/** Return the columns of a file, without the anonymous ids of events for which the condition holds. */
export const columnsWithout = (losesId: string): string =>
  COLUMNS.map((column) =>
    column === 'anonymous_id'
      ? `CASE WHEN NOT coalesce(${losesId}, false) THEN anonymous_id END AS anonymous_id`
      : `"${column}"`,
  ).join(', ');
