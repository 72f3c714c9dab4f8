import { type Backlog, type EndpointState, isOrdinary, refusalOf } from '../port.ts';
import type { Context } from './context.ts';

export async function endpoints({ db }: Context): Promise<EndpointState[]> {
  const times = ['paused_at', 'dead_since', 'refusing_since', 'refused_from', 'taken_at'];
  const rows = await db.rows<[string, string, ...(number | null)[]]>(
    `SELECT endpoint, destination, ${times.map((time) => `${time} - ${db.now}`).join(', ')} FROM rollcall.endpoint`,
  );
  return rows.map(([endpoint, destination, paused = null, dead = null, ...refusal]) => ({
    endpoint,
    destination,
    pausedAt: db.local(paused),
    deadSince: db.local(dead),
    ...refusalOf(...refusal.map((time) => db.local(time))),
  }));
}

export async function markEndpoint({ db }: Context, state: EndpointState): Promise<void> {
  const { endpoint, destination, pausedAt, deadSince, refusal } = state;
  if (isOrdinary(state)) {
    await db.run('DELETE FROM rollcall.endpoint WHERE endpoint = $1', [endpoint]);
    return;
  }
  await db.run(
    `INSERT INTO rollcall.endpoint VALUES ($1, $2, ${[3, 4, 5, 6, 7].map((place) => `${db.now} + $${place}::bigint`).join(', ')})
     ON CONFLICT (endpoint) DO UPDATE
     SET destination = excluded.destination, paused_at = excluded.paused_at, dead_since = excluded.dead_since,
       refusing_since = excluded.refusing_since, refused_from = excluded.refused_from, taken_at = excluded.taken_at`,
    [
      endpoint,
      destination,
      ...[pausedAt, deadSince, refusal?.since ?? null, refusal?.from ?? null, refusal?.takenAt ?? null].map((time) =>
        db.fromNow(time),
      ),
    ],
  );
}

export async function backlog({ db }: Context): Promise<Backlog[]> {
  const sums = ['pending', 'dead', 'queued', 'held_out'].map((name) => `sum(${name})::bigint`);
  const rows = await db.rows<[string, number, number, number, number]>(
    `SELECT destination, ${sums.join(', ')} FROM rollcall.backlog GROUP BY destination`,
  );
  return rows.map(([destination, pending, dead, queued, heldOut]) => ({ destination, pending, dead, queued, heldOut }));
}
