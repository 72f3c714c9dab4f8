import type { EventSend, SendFilter } from '../port.ts';
import { sql, where } from '../sql.ts';
import { IS_OPEN, SENDS } from './runs.ts';
import type { Session } from './session.ts';

// Sends are rows of `run`: a step of `accept` moves their cursor, and their deliveries are counted, as those of a run.

export async function addSend({ run }: Session, send: EventSend): Promise<void> {
  const { id, state, startedAt, cursor, sent } = send;
  await run(sql`INSERT INTO rollcall.run (id, key, state, started_at, cursor, sent, record)
    VALUES (${id}, ${SENDS}, ${state}, ${startedAt}, ${cursor}, ${sent}, ${JSON.stringify(send)})`);
}

export function endSend(session: Session, id: string, state: EventSend['state'], at: number): Promise<boolean> {
  return session.transaction(async (session) => {
    const found = await send(session, id);
    if (found === null) return false;
    const record = JSON.stringify({ ...found, state, finishedAt: at });
    const ended = await session.run(
      sql`UPDATE rollcall.run SET state = ${state}, record = ${record} WHERE id = ${id} AND state = 'sending'`,
    );
    return ended > 0;
  });
}

type SendRow = readonly [record: string, cursor: string | null, sent: number];

const sendOf = ([record, cursor, sent]: SendRow): EventSend => ({ ...(JSON.parse(record) as EventSend), cursor, sent });

export async function send({ rows }: Session, id: string): Promise<EventSend | null> {
  const [row] = await rows<SendRow>(
    sql`SELECT record, cursor, sent FROM rollcall.run WHERE id = ${id} AND key = ${SENDS}`,
  );
  return row ? sendOf(row) : null;
}

export async function sends({ rows, dialect }: Session, { open, before, limit }: SendFilter): Promise<EventSend[]> {
  const conditions = where(
    sql`key = ${SENDS}`,
    open ? IS_OPEN : null,
    before === undefined ? null : sql`seq < (SELECT seq FROM rollcall.run WHERE id = ${before})`,
  );
  const found = await rows<SendRow>(sql`SELECT record, cursor, sent FROM rollcall.run
    ${dialect.using(open ? 'run_open' : 'run_key')} ${conditions} ORDER BY seq DESC LIMIT ${limit}`);
  return found.map(sendOf);
}
