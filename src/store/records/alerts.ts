import type { Alert, AlertFilter, AlertPage, Fence } from '../port.ts';
import { join, raw, sql, where } from '../sql.ts';
import { checkFence } from './fence.ts';
import type { Session } from './session.ts';

const TIMES = ['first_at', 'opened_at', 'gone_at', 'closed_at', 'opening_at', 'closing_at'];
const COLUMNS = [...['id', 'kind', 'subject', 'is_over', 'record'], ...TIMES];

/** The column `record`. */
interface Details extends Pick<Alert, 'about' | 'flaps'> {
  readonly opening: { readonly id: string; readonly sent: boolean } | null;
  readonly closing: { readonly id: string; readonly sent: boolean } | null;
}

type AlertRow = readonly [seq: number, id: string, isOver: number, record: string, ...times: (number | null)[]];

const columnsOf = ({ time }: Session) =>
  join([raw('seq, id, is_over, record'), ...TIMES.map((column) => time.read(raw(column)))], ', ');

function alertOf([, id, isOver, record, ...times]: AlertRow): Alert {
  const [firstAt = null, openedAt = null, goneAt = null, closedAt = null, openingAt = null, closingAt = null] = times;
  const { about, flaps, opening, closing } = JSON.parse(record) as Details;
  return {
    ...{ id, about, flaps, firstAt: firstAt ?? 0, openedAt, goneAt, closedAt },
    opening: opening && { ...opening, at: openingAt ?? 0 },
    closing: closing && { ...closing, at: closingAt ?? 0 },
    isOver: isOver === 1,
  };
}

export async function currentAlerts(session: Session, closedSince: number): Promise<Alert[]> {
  const found = await session.rows<AlertRow>(sql`SELECT ${columnsOf(session)} FROM rollcall.alert
    WHERE is_over = 0 OR closed_at >= ${session.time.at(closedSince)} ORDER BY seq`);
  return found.map(alertOf);
}

export function saveAlerts(
  session: Session,
  alerts: readonly Alert[],
  gone: readonly string[],
  fence: Fence,
): Promise<void> {
  return session.transaction(async (session) => {
    await checkFence(session, fence);
    await session.run(sql`DELETE FROM rollcall.alert WHERE ${session.dialect.oneOf(raw('id'), 'text', gone)}`);
    for (const alert of alerts) await save(session, alert);
  });
}

async function save({ run, time }: Session, alert: Alert): Promise<void> {
  const { id, about, flaps, firstAt, openedAt, goneAt, closedAt, opening, closing, isOver } = alert;
  const times = [firstAt, openedAt, goneAt, closedAt, opening?.at ?? null, closing?.at ?? null];
  const details: Details = {
    ...{ about, flaps },
    opening: opening && { id: opening.id, sent: opening.sent },
    closing: closing && { id: closing.id, sent: closing.sent },
  };
  const values = [sql`${id}, ${about.kind}, ${about.subject}, ${isOver ? 1 : 0}, ${JSON.stringify(details)}`];
  const changed = COLUMNS.slice(3).map((column) => `${column} = excluded.${column}`);
  await run(sql`INSERT INTO rollcall.alert (${raw(COLUMNS.join(', '))})
    VALUES (${join([...values, ...times.map((at) => time.at(at))], ', ')})
    ON CONFLICT (id) DO UPDATE SET ${raw(changed.join(', '))}`);
}

/** Newest first. */
export async function alerts(session: Session, { isOpen, before, limit }: AlertFilter): Promise<AlertPage> {
  const conditions = where(
    raw('opened_at IS NOT NULL'),
    isOpen === undefined ? null : raw(isOpen ? 'is_over = 0 AND closed_at IS NULL' : 'closed_at IS NOT NULL'),
    before === undefined
      ? null
      : sql`(opened_at, seq) < (SELECT opened_at, seq FROM rollcall.alert WHERE seq = ${before})`,
  );
  const found = await session.rows<AlertRow>(sql`SELECT ${columnsOf(session)} FROM rollcall.alert ${conditions}
    ORDER BY opened_at DESC, seq DESC LIMIT ${limit + 1}`);
  const page = found.slice(0, limit);
  return {
    alerts: page.map(alertOf),
    next: found.length > limit ? (page.at(-1)?.[0] ?? null) : null,
  };
}

export function pruneAlerts({ run, time }: Session, before: number, limit: number): Promise<number> {
  return run(sql`DELETE FROM rollcall.alert WHERE id IN (SELECT id FROM rollcall.alert
    WHERE is_over = 1 AND closed_at < ${time.at(before)} ORDER BY closed_at LIMIT ${limit})`);
}
