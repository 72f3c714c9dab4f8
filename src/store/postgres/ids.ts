import type { Context } from './context.ts';

/** Numbers fetched at a time. */
const BLOCK = 4_000;

/** The sequence is looked up once: its name is not in the migrations. */
const NEXT = `
  SELECT string_agg(nextval(s.name)::text, ' ')
  FROM (SELECT pg_get_serial_sequence('rollcall.delivery', 'id')::regclass AS name OFFSET 0) AS s, generate_series(1, $1::int)`;

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
      const [row] = await this.context.db.rows<[string]>(NEXT, [Math.max(BLOCK, count)]);
      this.free = this.free.concat((row?.[0] ?? '').split(' ').map(Number));
    }
    return this.free.splice(0, count);
  }
}
