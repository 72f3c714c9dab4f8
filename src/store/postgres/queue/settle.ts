import { failpoint } from '../../../kernel/failpoint.ts';
import { inPlaceOf } from '../../../membership-change.ts';
import type { Claim, Settlement } from '../../port.ts';
import { CLAIMED, READY, WAITING } from '../../states.ts';
import { takenOf } from '../../taken.ts';
import { bool, int8, text } from '../arrays.ts';
import type { StoreContext } from '../context.ts';
import type { DatabaseSession } from '../database.ts';
import { GroupCommit } from '../group.ts';
import { hasOneOf } from './conflict-keys.ts';
import { again } from './ranks.ts';
import { type EndedClaim, SettleStatements } from './settle-statements.ts';

interface Owned {
  readonly owner: number;
  readonly settlements: readonly Settlement[];
}

/**
 * Settles claims. Settlements of a process share statements: one for delivered ones, one for retries, one for dead
 * letters, each a transaction of its own. Those with a conflict key need a transaction of several statements.
 */
export class Settlements {
  private readonly context: StoreContext;
  private readonly statements: SettleStatements;
  private readonly plain: GroupCommit<Owned, undefined>;
  private readonly keyed: GroupCommit<Owned, undefined>;
  /** True if this process keeps delivered messages, by its last call. */
  private keeps = false;

  constructor(context: StoreContext) {
    this.context = context;
    this.statements = new SettleStatements(context);
    const rows = ({ settlements }: Owned) => settlements.length;
    this.plain = new GroupCommit((items) => this.each(items, (owner, all) => this.settlePlain(owner, all)), rows);
    this.keyed = new GroupCommit((items) => this.each(items, (owner, all) => this.settleKeyed(owner, all)), rows);
  }

  async settle(owner: number, settlements: readonly Settlement[], keeps: boolean): Promise<void> {
    this.keeps = keeps;
    const isKeyed = ({ claim }: Settlement) => claim.conflict !== null;
    const keyed = settlements.filter(isKeyed);
    const plain = keyed.length === 0 ? settlements : settlements.filter((each) => !isKeyed(each));
    await Promise.all([
      plain.length > 0 && this.plain.add({ owner, settlements: plain }),
      keyed.length > 0 && this.keyed.add({ owner, settlements: keyed }),
    ]);
    failpoint('settle');
  }

  async begin(owner: number, claims: readonly Claim[]): Promise<void> {
    await this.context.db.run(
      'UPDATE rollcall.delivery SET begun = true WHERE id = ANY ($1::bigint[]) AND owner = $2',
      [int8(claims, ({ id }) => this.context.ids.number(id)), owner],
    );
  }

  /** Release claims of an owner; see `Free`. */
  async free(owner: number, only?: readonly number[], isCrashed = false): Promise<number> {
    const ids = only ?? (await heldBy(this.context, owner));
    let freed = 0;
    for (let from = 0; from < ids.length; from += FREED) {
      freed += await this.freeSome(owner, ids.slice(from, from + FREED), isCrashed);
    }
    return freed;
  }

  private freeSome(owner: number, ids: readonly number[], isCrashed: boolean): Promise<number> {
    return this.context.db.transaction(async (session) => {
      const held = await session.rows<HeldRow>(HELD, [owner, int8(ids)]);
      if (isCrashed) await session.run(COUNT_CRASH, [owner, int8(ids)]);
      const verdict = { kind: 'release', dueAt: null } as const;
      const endings = held.map(([id]) => ({ id, verdict }));
      await this.statements.end(
        session,
        owner,
        endings,
        await outlived(this.context.db.now, session, held, () => true),
      );
      return held.length;
    });
  }

  private async each(
    items: readonly Owned[],
    settle: (owner: number, all: readonly Settlement[]) => Promise<void>,
  ): Promise<undefined[]> {
    // A process has one owner at a time, except just after it lost its lease.
    for (const owner of new Set(items.map((item) => item.owner))) {
      await settle(
        owner,
        items.filter((item) => item.owner === owner).flatMap(({ settlements }) => settlements),
      );
    }
    return items.map(() => undefined);
  }

  private endings(settlements: readonly Settlement[]): EndedClaim[] {
    return settlements.map((settlement) => {
      const { claim, verdict } = settlement;
      return { id: this.context.ids.number(claim.id), verdict, taken: takenOf(settlement) };
    });
  }

  private async settlePlain(owner: number, settlements: readonly Settlement[]): Promise<void> {
    const { db } = this.context;
    const delivered = settlements.filter(({ verdict }) => verdict.kind === 'delivered');
    if (delivered.length > 0) await this.statements.delivered(db, owner, delivered, this.keeps);
    const others = settlements.filter(({ verdict }) => verdict.kind !== 'delivered');
    if (others.length === 0) return;
    await db.transaction(async (session) => {
      await this.statements.log(session, others);
      await this.statements.end(session, owner, this.endings(others), new Set());
    });
  }

  private settleKeyed(owner: number, settlements: readonly Settlement[]): Promise<void> {
    return this.context.db.transaction(async (session) => {
      await this.statements.log(session, settlements);
      const endings = this.endings(settlements);
      const held = await session.rows<HeldRow>(HELD, [owner, int8(endings, ({ id }) => id)]);
      const ended = new Set(endings.filter(({ verdict }) => verdict.kind === 'delivered').map(({ id }) => id));
      await this.statements.end(
        session,
        owner,
        endings,
        await outlived(this.context.db.now, session, held, (id) => !ended.has(id)),
        this.keeps,
      );
    });
  }
}

/** Return the claims of an owner. Their index may hold every entry since vacuum could last remove any. */
export async function heldBy({ db }: Pick<StoreContext, 'db'>, owner: number): Promise<number[]> {
  const sql = `SELECT id FROM rollcall.delivery WHERE state = ${CLAIMED} AND owner = $1`;
  return (await db.patient<[number]>(sql, [owner])).map(([id]) => id);
}

/** Deliveries freed in one transaction. */
const FREED = 4_000;

const HELD = `
  SELECT id, conflict, destination FROM rollcall.delivery WHERE id = ANY ($2::bigint[]) AND owner = $1 ORDER BY id FOR UPDATE`;

/** The first crash counts for all deliveries held, later ones for those whose attempt was recorded. */
const COUNT_CRASH = `
  UPDATE rollcall.delivery SET crashes = CASE WHEN begun THEN crashes + 1 ELSE greatest(crashes, 1) END
  WHERE id = ANY ($2::bigint[]) AND owner = $1`;

type HeldRow = readonly [id: number, conflict: string | null, destination: string];

/**
 * Free newer changes that wait for these claims, whose rows are locked. Resolve to the claims that a newer change
 * waited for, in the queue or held out of it. An accept of such a change held the lock before, so this statement sees
 * the change.
 *
 * `OFFSET 0` makes it look letters up for each key: a mere EXISTS becomes a join (`conflict-keys.ts`).
 *
 * @param isLeft - true for a claim that would stay in the queue
 */
async function outlived(
  now: string,
  session: DatabaseSession,
  held: readonly HeldRow[],
  isLeft: (id: number) => boolean,
): Promise<ReadonlySet<number>> {
  const keyed = held.filter(([, conflict]) => conflict !== null);
  if (keyed.length === 0) return new Set();
  const freed = await session.rows<[string, string]>(
    `WITH keys AS (SELECT * FROM unnest($1::text[], $2::text[], $3::boolean[]) AS k (conflict, destination, is_left)),
     freed AS (
       UPDATE rollcall.delivery d SET state = ${READY}, rank = ${again('d.rank')}, due_at = ${now}
       WHERE ${hasOneOf('d', '$1', '$2')} AND d.state = ${WAITING}
       RETURNING d.conflict, d.destination
     )
     SELECT conflict, destination FROM freed
     UNION ALL
     SELECT k.conflict, k.destination FROM keys k WHERE k.is_left AND EXISTS (
       SELECT 1 FROM rollcall.dead_letter l
       WHERE l.conflict = k.conflict AND l.destination = k.destination AND l.reason = 'queue_full' OFFSET 0)`,
    [
      text(keyed, ([, conflict]) => conflict),
      text(keyed, ([, , destination]) => destination),
      bool(keyed, ([id]) => isLeft(id)),
    ],
  );
  const keys = new Set(freed.map((key) => JSON.stringify(key)));
  const outlived = keyed.filter(([, ...key]) => keys.has(JSON.stringify(key))).map(([id]) => id);
  await passOnExplanations(session, outlived.filter(isLeft));
  return new Set(outlived);
}

/** Explain changes that take the place of these claims, queued or held out, as the claims do. */
async function passOnExplanations(session: DatabaseSession, claims: readonly number[]): Promise<void> {
  if (claims.length === 0) return;
  const ids = int8(claims);
  const older = await session.rows<[conflict: string, destination: string, body: string]>(
    'SELECT conflict, destination, body FROM rollcall.delivery WHERE id = ANY ($1::bigint[])',
    [ids],
  );
  const bodies = new Map(older.map(([conflict, destination, body]) => [JSON.stringify([conflict, destination]), body]));
  const keys = [text(older, ([conflict]) => conflict), text(older, ([, destination]) => destination)];
  for (const [table, condition] of [
    ['delivery', 'd.id <> ALL ($3::bigint[])'],
    ['dead_letter', "d.reason = 'queue_full' AND $3::bigint[] IS NOT NULL"],
  ] as const) {
    const newer = await session.rows<[id: number, conflict: string, destination: string, body: string]>(
      `SELECT d.id, d.conflict, d.destination, d.body FROM rollcall.${table} d WHERE ${hasOneOf('d', '$1', '$2')} AND ${condition}`,
      [...keys, ids],
    );
    if (newer.length === 0) continue;
    const explained = ([, conflict, destination, body]: (typeof newer)[number]) =>
      inPlaceOf(bodies.get(JSON.stringify([conflict, destination])) ?? body, body);
    await session.run(
      `UPDATE rollcall.${table} d SET body = ($2::text[])[array_position($1::bigint[], d.id)] WHERE d.id = ANY ($1::bigint[])`,
      [int8(newer, ([id]) => id), text(newer, explained)],
    );
  }
}
