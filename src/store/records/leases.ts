import type { Fence } from '../port.ts';
import { sql } from '../sql.ts';
import type { Session } from './session.ts';

/** Takes a lease. A process that has exited holds nothing, whatever its lease says. */
export async function takeLease(session: Session, lease: string, ttl: number): Promise<Fence | null> {
  const { rows, time, processes } = session;
  const [held] = await rows<[holder: string, token: number]>(
    sql`SELECT holder, token FROM rollcall.lease WHERE name = ${lease} AND lease_until > ${time.now}`,
  );
  const [holder, token = -1] = held ?? [];
  if (holder !== undefined && !processes.hasExited(holder)) return null;
  const [row] = await rows<[number]>(sql`
    INSERT INTO rollcall.lease (name, token, lease_until, holder)
    VALUES (${lease}, 1, ${time.now} + ${ttl}, ${processes.own})
    ON CONFLICT (name) DO UPDATE
    SET token = lease.token + 1, lease_until = excluded.lease_until, holder = excluded.holder
    WHERE lease.lease_until <= ${time.now} OR lease.token = ${token} RETURNING token`);
  return row ? { lease, token: row[0] } : null;
}

/** Renews a lease unless it was released: the last renewal may arrive later, on another connection. */
export async function renewLease({ run, time }: Session, { lease, token }: Fence, ttl: number): Promise<boolean> {
  const until = sql`${time.now} + ${ttl}`;
  const renewed = await run(sql`
    UPDATE rollcall.lease SET lease_until = ${until} WHERE name = ${lease} AND token = ${token} AND lease_until > 0`);
  return renewed > 0;
}

/** Ends the lease but keeps its row: the token must never fall. */
export async function releaseLease({ run }: Session, { lease, token }: Fence): Promise<void> {
  await run(sql`UPDATE rollcall.lease SET lease_until = 0 WHERE name = ${lease} AND token = ${token}`);
}
