import type { Context } from './context.ts';
import type { Session } from './database.ts';

/** Numbers fetched at a time. */
const BLOCK = 4_000;

/** The sequence is looked up once: its name is not in the migrations. */
const NEXT = `
  SELECT string_agg(nextval(s.name)::text, ' ')
  FROM (SELECT pg_get_serial_sequence('rollcall.delivery', 'id')::regclass AS name OFFSET 0) AS s, generate_series(1, $1::int)`;

/** Ids for deliveries that never come again. */
export async function newIds(session: Session, count: number): Promise<number[]> {
  const [row] = await session.rows<[string]>(NEXT, [count]);
  return (row?.[0] ?? '').split(' ').map(Number);
}

/** Ids for deliveries, known before the rows are written. */
export class Ids {
  private readonly context: Pick<Context, 'db'>;
  private free: number[] = [];

  constructor(context: Pick<Context, 'db'>) {
    this.context = context;
  }

  /** Not to be called again before it has resolved. */
  async take(count: number): Promise<number[]> {
    if (this.free.length < count) {
      this.free = this.free.concat(await newIds(this.context.db, Math.max(BLOCK, count)));
    }
    return this.free.splice(0, count);
  }
}
