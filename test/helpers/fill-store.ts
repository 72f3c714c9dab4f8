import { DatabaseSync } from 'node:sqlite';

/** An estate on which lists end later than one answer of the API. */
export const ESTATE = { destinations: 50, audiences: 40, attempts: 600_000, letters: 25_000 } as const;

export interface StoreContents {
  /**
   * Names of destinations with the ids of their endpoints. The first has the oldest attempts and letters and no newer ones; the second
   * answers 500.
   */
  readonly endpoints: readonly (readonly [destination: string, endpoint: string])[];
  readonly deliveries?: number;
  readonly letters: number;
  readonly attempts: number;
}

export const BODY = JSON.stringify({
  version: 1,
  type: 'track',
  event: 'Order Completed',
  properties: { text: 'x'.repeat(300) },
});

const series = (count: number) =>
  `WITH RECURSIVE g(n) AS (SELECT 1 WHERE ${count} > 0 UNION ALL SELECT n + 1 FROM g WHERE n < ${count})`;

/** Of each thousand: how many of the oldest are the first destination's. */
const OLD = 10;

/** Fills an SQLite store that nobody has open: deliveries that wait, dead letters and attempts, of a source `shop`. */
export function fillSqlite(path: string, { endpoints, deliveries = 0, letters, attempts }: StoreContents): void {
  const db = new DatabaseSync(path);
  const now = Date.now();
  db.exec('BEGIN; CREATE TEMP TABLE place (n INTEGER PRIMARY KEY, destination INTEGER, endpoint INTEGER)');
  const name = db.prepare('INSERT INTO name (value) VALUES (?) ON CONFLICT DO UPDATE SET value = value RETURNING id');
  const idOf = (text: string) => Number(name.get(text)?.['id']);
  const place = db.prepare('INSERT INTO place VALUES (?, ?, ?)');
  for (const [n, [destination, endpoint]] of endpoints.entries()) place.run(n, idOf(destination), idOf(endpoint));
  const shop = idOf('shop');
  /** The place of row n: the first for the oldest rows, then the others in turn. */
  const placeOf = (count: number) =>
    `JOIN place ON place.n = CASE WHEN g.n <= ${count} * ${OLD} / 1000 THEN 0 ELSE 1 + g.n % ${endpoints.length - 1} END`;
  db.exec(`${series(deliveries)} INSERT INTO delivery (destination, lane, state, due_at, tries, source, type, message_id, user_id,
    accepted_at, body) SELECT destination, 1, 0, ${now}, 0, ${shop}, 1, 'm' || g.n, 'u' || g.n, ${now}, '${BODY}'
    FROM g ${placeOf(deliveries)}`);
  db.exec(`${series(letters)} INSERT INTO dead_letter (id, destination, lane, source, type, message_id, user_id, reason, tries,
    accepted_at, last_at, body) SELECT g.n, destination, 1, ${shop}, 1, 'm' || g.n, 'u' || g.n, 'refused', 1, ${now}, ${now}, '${BODY}'
    FROM g ${placeOf(letters)}`);
  db.exec(`${series(attempts)} INSERT INTO attempt (at, delivery, destination, endpoint, source, type, message_id, user_id, outcome,
    status, ms, error, response) SELECT ${now} - (${attempts} - g.n) * 10, g.n, destination, endpoint, ${shop}, 1, 'm' || g.n, 'u' || g.n,
      CASE place.n WHEN 0 THEN 2 WHEN 1 THEN 1 ELSE 0 END, CASE place.n WHEN 0 THEN 410 WHEN 1 THEN 500 ELSE 200 END, 3,
      CASE place.n WHEN 1 THEN 'status_500' END, CASE place.n WHEN 1 THEN 'Database is locked.' END
    FROM g ${placeOf(attempts)}`);
  const counts = (table: string) => `(SELECT count(*) FROM ${table} WHERE destination = place.destination)`;
  db.exec(`INSERT OR REPLACE INTO backlog SELECT DISTINCT destination, ${counts('delivery')}, ${counts('dead_letter')},
    ${counts('delivery')}, 0 FROM place`);
  // Further deliveries get ids of their own: a dead letter keeps that of its delivery.
  db.exec(`DELETE FROM sqlite_sequence WHERE name = 'delivery';
    INSERT INTO sqlite_sequence VALUES ('delivery', ${Math.max(deliveries, letters, attempts)})`);
  db.exec('COMMIT');
  db.close();
}
