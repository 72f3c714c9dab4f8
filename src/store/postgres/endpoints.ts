import type { Backlog, EndpointState } from '../port.ts';
import type { Context } from './context.ts';

export async function endpoints({ db }: Context): Promise<EndpointState[]> {
  const rows = await db.rows<[string, string, number | null, number | null]>(
    `SELECT endpoint, destination, paused_at - ${db.now}, dead_since - ${db.now} FROM rollcall.endpoint`,
  );
  return rows.map(([endpoint, destination, paused, dead]) => ({
    endpoint,
    destination,
    pausedAt: db.local(paused),
    deadSince: db.local(dead),
  }));
}

export async function markEndpoint({ db }: Context, state: EndpointState): Promise<void> {
  const { endpoint, destination, pausedAt, deadSince } = state;
  if (pausedAt === null && deadSince === null) {
    await db.run('DELETE FROM rollcall.endpoint WHERE endpoint = $1', [endpoint]);
    return;
  }
  await db.run(
    `INSERT INTO rollcall.endpoint VALUES ($1, $2, ${db.now} + $3::bigint, ${db.now} + $4::bigint)
     ON CONFLICT (endpoint) DO UPDATE
     SET destination = excluded.destination, paused_at = excluded.paused_at, dead_since = excluded.dead_since`,
    [endpoint, destination, db.fromNow(pausedAt), db.fromNow(deadSince)],
  );
}

export async function backlog({ db }: Context): Promise<Backlog[]> {
  const sums = ['pending', 'dead', 'queued', 'held_out'].map((name) => `sum(${name})::bigint`);
  const rows = await db.rows<[string, number, number, number, number]>(
    `SELECT destination, ${sums.join(', ')} FROM rollcall.backlog GROUP BY destination`,
  );
  return rows.map(([destination, pending, dead, queued, heldOut]) => ({ destination, pending, dead, queued, heldOut }));
}
