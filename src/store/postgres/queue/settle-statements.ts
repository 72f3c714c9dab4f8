import { failpoint } from '../../../kernel/failpoint.ts';
import { MESSAGE_TYPES } from '../../../message-types.ts';
import { OUTCOMES, type Settlement, type Verdict } from '../../port.ts';
import { NOTICE, READY } from '../../states.ts';
import { loggedMessageId, loggedResponse, loggedUser } from '../../users.ts';
import { bool, columns, int2, int4, int8, text } from '../arrays.ts';
import type { StoreContext } from '../context.ts';
import { counting, QUEUED_ONES, UNTRIED_ONES } from '../counters.ts';
import type { DatabaseSession } from '../database.ts';
import { Parameters } from '../parameters.ts';
import { again } from './ranks.ts';

export interface EndedClaim {
  readonly id: number;
  readonly verdict: Verdict;
  /** For a dead letter: the endpoints that took it. */
  readonly taken?: string | null;
}

/** The statements that end claims. Each skips claims that the owner no longer holds. */
export class SettleStatements {
  private readonly context: StoreContext;
  private readonly deliveredSql: Readonly<Record<'dropping' | 'keeping', string>>;
  private readonly deadSql: string;
  private readonly againSql: string;
  private readonly goneSql: string;
  private readonly keptSql: string;
  private readonly logSql: string;

  constructor(context: StoreContext) {
    this.context = context;
    const { now } = context.db;
    const logged = `, logged AS (${logSql(now, GONE.next)})`;
    const kept = `, kept AS (${keptSql(now)})`;
    this.goneSql = goneSql(now, '');
    this.keptSql = goneSql(now, kept, '*');
    this.deliveredSql = { dropping: goneSql(now, logged), keeping: goneSql(now, logged + kept, '*') };
    this.logSql = logSql(now, 1);
    this.deadSql = deadSql(now);
    this.againSql = againSql(now);
  }

  /** Settle delivered claims with their attempts: the usual case, in one statement. */
  async delivered(session: DatabaseSession, owner: number, settlements: readonly Settlement[], keeps: boolean) {
    const ids = int8(settlements, ({ claim }) => this.context.ids.number(claim.id));
    await session.run(this.deliveredSql[keeps ? 'keeping' : 'dropping'], [
      ...GONE.values({ owner, ids, part: this.context.parts.settle, as: 'delivered' }),
      ...this.attempts(settlements),
    ]);
  }

  async log(session: DatabaseSession, settlements: readonly Settlement[]): Promise<void> {
    if (settlements.some(({ attempts }) => attempts.length > 0)) {
      await session.run(this.logSql, this.attempts(settlements));
    }
  }

  /** @param replaced - claims that a newer change waits for: they are not retried and leave no dead letter */
  async end(
    session: DatabaseSession,
    owner: number,
    endings: readonly EndedClaim[],
    replaced: ReadonlySet<number>,
    keeps = false,
  ): Promise<void> {
    const gone: Record<'delivered' | 'superseded' | 'dead', number[]> = { delivered: [], superseded: [], dead: [] };
    const again: EndedClaim[] = [];
    const dead: EndedClaim[] = [];
    for (const ending of endings) {
      const { kind } = ending.verdict;
      const isReplaced = replaced.has(ending.id);
      if (kind === 'delivered') gone.delivered.push(ending.id);
      else if (kind === 'dead') isReplaced ? gone.dead.push(ending.id) : dead.push(ending);
      else isReplaced ? gone.superseded.push(ending.id) : again.push(ending);
    }
    for (const [as, ids] of Object.entries(gone)) {
      const sql = keeps && as === 'delivered' ? this.keptSql : this.goneSql;
      const given = { owner, ids: int8(ids), part: this.context.parts.settle, as };
      if (ids.length > 0) await session.run(sql, GONE.values(given));
    }
    if (again.length > 0) await this.again(session, owner, again);
    if (dead.length > 0) await this.bury(session, owner, dead);
  }

  private async again(session: DatabaseSession, owner: number, endings: readonly EndedClaim[]): Promise<void> {
    const { db, parts } = this.context;
    const retry = ({ verdict }: EndedClaim) => (verdict.kind === 'retry' ? verdict : null);
    const dueAt = ({ verdict }: EndedClaim) => ('dueAt' in verdict ? db.fromNow(verdict.dueAt) : null);
    const given = {
      owner,
      ids: int8(endings, ({ id }) => id),
      tried: bool(endings, (ending) => retry(ending) !== null),
      due: int8(endings, dueAt),
      first: int8(endings, (ending) => db.fromNow(retry(ending)?.firstAt ?? null)),
      marks: text(endings, (ending) => marksOf(retry(ending))),
      part: parts.settle,
    };
    await session.run(this.againSql, AGAIN.values(given));
    failpoint('retry');
  }

  private async bury(session: DatabaseSession, owner: number, endings: readonly EndedClaim[]): Promise<void> {
    const { db, parts } = this.context;
    const verdicts = endings.map(({ verdict }) => verdict).filter((verdict) => verdict.kind === 'dead');
    const given = {
      owner,
      ids: int8(endings, ({ id }) => id),
      reasons: text(verdicts, ({ reason }) => reason),
      statuses: int4(verdicts, ({ status }) => status),
      first: int8(verdicts, ({ firstAt }) => db.fromNow(firstAt)),
      part: parts.settle,
      denied: text(verdicts, ({ marks }) => (marks ? JSON.stringify(marks) : null)),
      taken: text(endings, ({ taken = null }) => taken),
    };
    await session.run(this.deadSql, DEAD.values(given));
  }

  private attempts(settlements: readonly Settlement[]): Buffer[] {
    const { db } = this.context;
    const rows = settlements.flatMap(({ claim, attempts }) => attempts.map((attempt) => ({ claim, attempt })));
    return [
      int8(rows, ({ attempt }) => db.fromWallNow(attempt.at)),
      int8(rows, ({ claim }) => this.context.ids.number(claim.id)),
      int4(rows, ({ attempt }) => attempt.status),
      int4(rows, ({ attempt }) => Math.round(attempt.ms)),
      int2(rows, ({ claim }) => MESSAGE_TYPES.indexOf(claim.type)),
      int2(rows, ({ attempt }) => OUTCOMES.indexOf(attempt.outcome)),
      text(rows, ({ claim }) => claim.destination),
      text(rows, ({ attempt }) => attempt.endpoint),
      text(rows, ({ claim }) => claim.source),
      text(rows, ({ claim }) => loggedMessageId(claim)),
      text(rows, ({ claim }) => loggedUser(claim)),
      text(rows, ({ attempt }) => attempt.error),
      text(rows, ({ claim, attempt }) => loggedResponse(claim, attempt.response)),
    ];
  }
}

function marksOf(verdict: (Verdict & { kind: 'retry' }) | null): string | null {
  return verdict && Object.keys(verdict.marks).length > 0 ? JSON.stringify(verdict.marks) : null;
}

/**
 * SQL condition for the delivery of a row `given`, held by the owner. Each of `ids` is looked up in the primary key,
 * then matched with the rows in a hash table. By the rows' ids alone, a planner that took the queue for empty would
 * scan it (`conflict-keys.ts`). `coalesce` makes it expect several rows, for which it builds the hash table.
 */
const isHeld = (delivery: string, given: string, ids: string, owner: string) =>
  `${delivery}.id = ANY (${ids}) AND ${delivery}.id = ${given}.id AND coalesce(${delivery}.owner = ${owner}, false)`;

/** Ends settled deliveries. `part`: shard of the counters; `as`: the run's counter to raise, such as `delivered`. */
const GONE = new Parameters({ owner: 'bigint', ids: 'bigint[]', part: 'bigint', as: 'text' });

const goneSql = (now: string, also: string, columns = 'destination, run, tries, rank') => `
WITH gone AS (
  DELETE FROM rollcall.delivery WHERE id = ANY (${GONE.at.ids}) AND owner = ${GONE.at.owner} RETURNING ${columns}
)${also}, ${counting(now, GONE.at.part, 'gone', {
  pending: '-count(*)',
  queued: `-${QUEUED_ONES}`,
  untried: `-${UNTRIED_ONES}`,
  delivered: `count(*) FILTER (WHERE ${GONE.at.as} = 'delivered')`,
  died: `count(*) FILTER (WHERE ${GONE.at.as} = 'dead')`,
  superseded: `count(*) FILTER (WHERE ${GONE.at.as} = 'superseded')`,
})}
SELECT 1`;

/** Keep delivered messages but for notices, which name someone who is to be forgotten. */
const keptSql = (now: string) => `
  INSERT INTO rollcall.delivered (at, delivery, accepted_at, type, destination, source, message_id, user_id, conflict, body)
  SELECT ${now}, id, accepted_at, type, destination, source, message_id, user_id, conflict, body
  FROM gone WHERE type <> ${NOTICE} ON CONFLICT DO NOTHING`;

const logSql = (now: string, from: number) => `
  INSERT INTO rollcall.attempt
    (at, delivery, status, ms, type, outcome, destination, endpoint, source, message_id, user_id, error, response)
  SELECT ${now} + a.ago, a.delivery, a.status, a.ms, a.type, a.outcome, a.destination, a.endpoint, a.source,
    a.message_id, a.user_id, a.error, a.response
  FROM (${columns(from, {
    ...{ ago: 'bigint', delivery: 'bigint', status: 'int', ms: 'int', type: 'smallint', outcome: 'smallint' },
    ...{ destination: 'text', endpoint: 'text', source: 'text', message_id: 'text', user_id: 'text' },
    ...{ error: 'text', response: 'text' },
  })}) AS a`;

const AGAIN = new Parameters({
  ...{ owner: 'bigint', ids: 'bigint[]', tried: 'boolean[]', due: 'bigint[]', first: 'bigint[]', marks: 'text[]' },
  part: 'bigint',
});

const againSql = (now: string, { owner, ids, tried, due, first, marks, part } = AGAIN.at) => `
WITH changed AS (
  UPDATE rollcall.delivery d SET
    state = ${READY}, owner = NULL, tries = d.tries + g.tried::int,
    rank = CASE WHEN g.tried THEN d.rank % 3 + 3 WHEN g.due IS NULL THEN ${again('d.rank')} ELSE d.rank % 6 END,
    due_at = ${now} + greatest(g.due, 0),
    first_at = CASE WHEN g.tried THEN ${now} + g.first ELSE d.first_at END,
    marks = CASE WHEN g.tried THEN g.marks ELSE d.marks END,
    crashes = CASE WHEN g.tried THEN 0 ELSE d.crashes END, begun = false
  FROM unnest(${ids}, ${tried}, ${due}, ${first}, ${marks}) AS g (id, tried, due, first, marks)
  WHERE ${isHeld('d', 'g', ids, owner)}
  RETURNING d.destination, d.rank % 3 AS lane, d.run, g.tried AND d.tries = 1 AS first_try
), tried AS (
  SELECT * FROM changed WHERE first_try
), ${counting(now, part, 'tried', { queued: '-count(*) FILTER (WHERE lane <> 0)', untried: '-count(*)' })}
SELECT 1`;

const DEAD = new Parameters({
  ...{ owner: 'bigint', ids: 'bigint[]', reasons: 'text[]', statuses: 'int[]', first: 'bigint[]', part: 'bigint' },
  ...{ denied: 'text[]', taken: 'text[]' },
});

const deadSql = (now: string, { owner, ids, reasons, statuses, first, part, denied, taken } = DEAD.at) => `
WITH gone AS (
  DELETE FROM rollcall.delivery d
  USING unnest(${ids}, ${reasons}, ${statuses}, ${first}, ${denied}, ${taken}) AS g (id, reason, status, first, denied, taken)
  WHERE ${isHeld('d', 'g', ids, owner)}
  RETURNING d.*, g.reason, g.status, g.first, g.denied, g.taken
), buried AS (
  INSERT INTO rollcall.dead_letter
    (id, accepted_at, first_at, last_at, tries, status, lane, type, destination, source, message_id, user_id, run, conflict, reason, body, marks, taken)
  SELECT id, accepted_at, coalesce(first_at, ${now} + first), ${now}, tries + (first IS NOT NULL)::int, status, rank % 3, type,
    destination, source, message_id, user_id, run, conflict, reason, body, denied, taken
  FROM gone
), ${counting(now, part, 'gone', {
  pending: '-count(*)',
  dead: 'count(*)',
  queued: `-${QUEUED_ONES}`,
  untried: `-${UNTRIED_ONES}`,
  died: 'count(*)',
})}
SELECT 1`;
