import { failpoint } from '../../failpoint.ts';
import { MESSAGE_TYPES } from '../../message.ts';
import { OUTCOMES, type Settlement, type Verdict } from '../port.ts';
import { bool, int2, int4, int8, text } from './arrays.ts';
import { CLAIMED, type Context, idNumber, READY, WAITING } from './context.ts';
import { addToBacklog, addToProgress } from './counters.ts';
import type { Session } from './database.ts';
import { Group } from './group.ts';

interface Owned {
  readonly owner: number;
  readonly settlements: readonly Settlement[];
}

/** What a statement changes: the owner's claims, by id. */
export interface Ending {
  readonly id: number;
  readonly verdict: Verdict;
}

/**
 * Settlements of one process share statements: delivered ones in one, those to try again in one, dead ones in one, each a
 * transaction of its own. Those with a conflict key take a transaction of several statements.
 */
export class Settlements {
  private readonly context: Context;
  private readonly statements: Statements;
  private readonly plain: Group<Owned, undefined>;
  private readonly keyed: Group<Owned, undefined>;

  constructor(context: Context) {
    this.context = context;
    this.statements = new Statements(context);
    const rows = ({ settlements }: Owned) => settlements.length;
    this.plain = new Group((items) => this.each(items, (owner, all) => this.settlePlain(owner, all)), rows);
    this.keyed = new Group((items) => this.each(items, (owner, all) => this.settleKeyed(owner, all)), rows);
  }

  async settle(owner: number, settlements: readonly Settlement[]): Promise<void> {
    const isKeyed = ({ claim }: Settlement) => claim.conflict !== null;
    const keyed = settlements.filter(isKeyed);
    const plain = keyed.length === 0 ? settlements : settlements.filter((each) => !isKeyed(each));
    await Promise.all([
      plain.length > 0 && this.plain.add({ owner, settlements: plain }),
      keyed.length > 0 && this.keyed.add({ owner, settlements: keyed }),
    ]);
    failpoint('settle');
  }

  async idle(): Promise<void> {
    await Promise.all([this.plain.idle(), this.keyed.idle()]);
  }

  /** Gives back claims of an owner: all of them, or those named; resolves to their number. */
  giveBack(owner: number, only: readonly number[] | null = null): Promise<number> {
    return this.context.db.transaction(async (session) => {
      const held = await session.rows<HeldRow>(
        `SELECT id, conflict, destination FROM rollcall.delivery
         WHERE state = ${CLAIMED} AND owner = $1 AND ($2::bigint[] IS NULL OR id = ANY ($2::bigint[])) ORDER BY id FOR UPDATE`,
        [owner, only === null ? null : int8(only)],
      );
      const verdict = { kind: 'release', dueAt: null } as const;
      const endings = held.map(([id]) => ({ id, verdict }));
      await this.statements.end(session, owner, endings, await outlived(session, held));
      return held.length;
    });
  }

  private async each(
    items: readonly Owned[],
    settle: (owner: number, all: readonly Settlement[]) => Promise<void>,
  ): Promise<undefined[]> {
    // A process has one owner at a time, but for the moment after it lost its lease.
    for (const owner of new Set(items.map((item) => item.owner))) {
      await settle(
        owner,
        items.filter((item) => item.owner === owner).flatMap(({ settlements }) => settlements),
      );
    }
    return items.map(() => undefined);
  }

  private endings(settlements: readonly Settlement[]): Ending[] {
    return settlements.map(({ claim, verdict }) => ({ id: idNumber(this.context, claim.id), verdict }));
  }

  private async settlePlain(owner: number, settlements: readonly Settlement[]): Promise<void> {
    const { db } = this.context;
    const delivered = settlements.filter(({ verdict }) => verdict.kind === 'delivered');
    if (delivered.length > 0) await this.statements.delivered(db, owner, this.endings(delivered), delivered);
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
      const held = await session.rows<HeldRow>(
        `SELECT id, conflict, destination FROM rollcall.delivery
         WHERE id = ANY ($2::bigint[]) AND owner = $1 ORDER BY id FOR UPDATE`,
        [owner, int8(endings.map(({ id }) => id))],
      );
      await this.statements.end(session, owner, endings, await outlived(session, held));
    });
  }
}

type HeldRow = readonly [id: number, conflict: string | null, destination: string];

/**
 * Sets newer changes free that wait for these claims, whose rows are locked; the claims that one waited for. An accept
 * that made its change wait held the lock before, so this statement sees that change.
 */
async function outlived(session: Session, held: readonly HeldRow[]): Promise<ReadonlySet<number>> {
  const keyed = held.filter(([, conflict]) => conflict !== null);
  if (keyed.length === 0) return new Set();
  const freed = await session.rows<[string, string]>(
    `UPDATE rollcall.delivery d SET state = ${READY} FROM unnest($1::text[], $2::text[]) AS k (conflict, destination)
     WHERE d.conflict = k.conflict AND d.destination = k.destination AND d.state = ${WAITING}
     RETURNING d.conflict, d.destination`,
    [text(keyed.map(([, conflict]) => conflict)), text(keyed.map(([, , destination]) => destination))],
  );
  const keys = new Set(freed.map((key) => JSON.stringify(key)));
  return new Set(keyed.filter(([, ...key]) => keys.has(JSON.stringify(key))).map(([id]) => id));
}

/** The statements that end claims; each passes over what the owner no longer holds. */
class Statements {
  private readonly context: Context;
  private readonly deliveredSql: string;
  private readonly deadSql: string;
  private readonly againSql: string;
  private readonly goneSql: string;
  private readonly logSql: string;

  constructor(context: Context) {
    this.context = context;
    const { now } = context.db;
    this.goneSql = goneSql('');
    this.deliveredSql = goneSql(`, logged AS (${logSql(now, 5)})`);
    this.logSql = logSql(now, 1);
    this.deadSql = deadSql(now);
    this.againSql = againSql(now);
  }

  /** Delivered ones with their attempts: the everyday case, in one statement. */
  async delivered(session: Session, owner: number, endings: readonly Ending[], of: readonly Settlement[]) {
    await session.run(this.deliveredSql, [
      owner,
      int8(endings.map(({ id }) => id)),
      this.context.parts.settle,
      'delivered',
      ...this.attempts(of),
    ]);
  }

  async log(session: Session, settlements: readonly Settlement[]): Promise<void> {
    if (settlements.some(({ attempts }) => attempts.length > 0)) {
      await session.run(this.logSql, this.attempts(settlements));
    }
  }

  /** @param replaced - claims that a newer change waited for: they are not tried again, and leave no dead letter */
  async end(session: Session, owner: number, endings: readonly Ending[], replaced: ReadonlySet<number>): Promise<void> {
    const gone: Record<'delivered' | 'superseded' | 'dead', number[]> = { delivered: [], superseded: [], dead: [] };
    const again: Ending[] = [];
    const dead: Ending[] = [];
    for (const ending of endings) {
      const { kind } = ending.verdict;
      const isReplaced = replaced.has(ending.id);
      if (kind === 'delivered') gone.delivered.push(ending.id);
      else if (kind === 'dead') isReplaced ? gone.dead.push(ending.id) : dead.push(ending);
      else isReplaced ? gone.superseded.push(ending.id) : again.push(ending);
    }
    for (const [as, ids] of Object.entries(gone)) {
      if (ids.length > 0) await session.run(this.goneSql, [owner, int8(ids), this.context.parts.settle, as]);
    }
    if (again.length > 0) await this.again(session, owner, again);
    if (dead.length > 0) await this.bury(session, owner, dead);
  }

  private async again(session: Session, owner: number, endings: readonly Ending[]): Promise<void> {
    const { db, parts } = this.context;
    const retry = ({ verdict }: Ending) => (verdict.kind === 'retry' ? verdict : null);
    const dueAt = ({ verdict }: Ending) => ('dueAt' in verdict ? db.fromNow(verdict.dueAt) : null);
    await session.run(this.againSql, [
      owner,
      int8(endings.map(({ id }) => id)),
      bool(endings.map((ending) => retry(ending) !== null)),
      int8(endings.map(dueAt)),
      int8(endings.map((ending) => db.fromNow(retry(ending)?.firstAt ?? null))),
      text(endings.map((ending) => marksOf(retry(ending)))),
      parts.settle,
    ]);
    failpoint('retry');
  }

  private async bury(session: Session, owner: number, endings: readonly Ending[]): Promise<void> {
    const { db, parts } = this.context;
    const verdicts = endings.map(({ verdict }) => verdict).filter((verdict) => verdict.kind === 'dead');
    await session.run(this.deadSql, [
      owner,
      int8(endings.map(({ id }) => id)),
      text(verdicts.map(({ reason }) => reason)),
      int4(verdicts.map(({ status }) => status)),
      int8(verdicts.map(({ firstAt }) => db.fromNow(firstAt))),
      parts.settle,
    ]);
  }

  private attempts(settlements: readonly Settlement[]): Buffer[] {
    const { db } = this.context;
    const rows = settlements.flatMap(({ claim, attempts }) => attempts.map((attempt) => ({ claim, attempt })));
    return [
      int8(rows.map(({ attempt }) => db.fromNow(attempt.at))),
      int8(rows.map(({ claim }) => idNumber(this.context, claim.id))),
      int4(rows.map(({ attempt }) => attempt.status)),
      int4(rows.map(({ attempt }) => Math.round(attempt.ms))),
      int2(rows.map(({ claim }) => MESSAGE_TYPES.indexOf(claim.type))),
      int2(rows.map(({ attempt }) => OUTCOMES.indexOf(attempt.outcome))),
      text(rows.map(({ claim }) => claim.destination)),
      text(rows.map(({ attempt }) => attempt.endpoint)),
      text(rows.map(({ claim }) => claim.source)),
      text(rows.map(({ claim }) => claim.messageId)),
      text(rows.map(({ claim }) => claim.userId)),
      text(rows.map(({ attempt }) => attempt.error)),
      text(rows.map(({ attempt }) => attempt.response)),
    ];
  }
}

function marksOf(verdict: (Verdict & { kind: 'retry' }) | null): string | null {
  return verdict && Object.keys(verdict.marks).length > 0 ? JSON.stringify(verdict.marks) : null;
}

/** Parameters: owner, ids, part of the counters, which counter of the run. */
const goneSql = (also: string) => `
WITH gone AS (
  DELETE FROM rollcall.delivery WHERE id = ANY ($2::bigint[]) AND owner = $1 RETURNING destination, run, tries
)${also}, counted AS (${addToBacklog('$3::smallint', 'SELECT destination, -count(*), 0 FROM gone GROUP BY destination')}
), progressed AS (${addToProgress(
  '$3::smallint',
  `SELECT run, 0, -count(*) FILTER (WHERE tries = 0), count(*) FILTER (WHERE $4::text = 'delivered'),
     count(*) FILTER (WHERE $4::text = 'dead'), count(*) FILTER (WHERE $4::text = 'superseded')
   FROM gone WHERE run IS NOT NULL GROUP BY run`,
)})
SELECT 1`;

const logSql = (now: string, from: number) => {
  const types = 'bigint bigint int int smallint smallint text text text text text text text'.split(' ');
  const columns = types.map((type, index) => `$${from + index}::${type}[]`).join(', ');
  return `
  INSERT INTO rollcall.attempt
    (at, delivery, status, ms, type, outcome, destination, endpoint, source, message_id, user_id, error, response)
  SELECT ${now} + a.ago, a.delivery, a.status, a.ms, a.type, a.outcome, a.destination, a.endpoint, a.source,
    a.message_id, a.user_id, a.error, a.response
  FROM unnest(${columns})
    AS a (ago, delivery, status, ms, type, outcome, destination, endpoint, source, message_id, user_id, error, response)`;
};

const againSql = (now: string) => `
WITH changed AS (
  UPDATE rollcall.delivery d SET
    state = ${READY}, owner = NULL, tries = d.tries + g.tried::int,
    turn = CASE WHEN g.tried THEN d.turn % 3 + 3 ELSE d.turn END,
    due_at = coalesce(${now} + g.due, d.due_at),
    first_at = CASE WHEN g.tried THEN ${now} + g.first ELSE d.first_at END,
    marks = CASE WHEN g.tried THEN g.marks ELSE d.marks END
  FROM unnest($2::bigint[], $3::boolean[], $4::bigint[], $5::bigint[], $6::text[]) AS g (id, tried, due, first, marks)
  WHERE d.id = g.id AND d.owner = $1
  RETURNING d.run, g.tried AND d.tries = 1 AS first_try
), progressed AS (${addToProgress(
  '$7::smallint',
  'SELECT run, 0, -count(*), 0, 0, 0 FROM changed WHERE run IS NOT NULL AND first_try GROUP BY run',
)})
SELECT 1`;

const deadSql = (now: string) => `
WITH gone AS (
  DELETE FROM rollcall.delivery d
  USING unnest($2::bigint[], $3::text[], $4::int[], $5::bigint[]) AS g (id, reason, status, first)
  WHERE d.id = g.id AND d.owner = $1
  RETURNING d.*, g.reason, g.status, g.first
), buried AS (
  INSERT INTO rollcall.dead_letter
    (id, first_at, last_at, tries, status, lane, type, destination, source, message_id, user_id, run, conflict, reason, body)
  SELECT id, coalesce(first_at, ${now} + first), ${now}, tries + (first IS NOT NULL)::int, status, turn % 3, type,
    destination, source, message_id, user_id, run, conflict, reason, body
  FROM gone
), counted AS (${addToBacklog('$6::smallint', 'SELECT destination, -count(*), count(*) FROM gone GROUP BY destination')}
), progressed AS (${addToProgress(
  '$6::smallint',
  'SELECT run, 0, -count(*) FILTER (WHERE tries = 0), 0, count(*), 0 FROM gone WHERE run IS NOT NULL GROUP BY run',
)})
SELECT 1`;
