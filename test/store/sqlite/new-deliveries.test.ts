import { deepStrictEqual } from 'node:assert';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { Connection } from '../../../src/store/sqlite/connection.ts';
import { migrate } from '../../../src/store/sqlite/migrate.ts';
import { type Handed, NewDeliveries } from '../../../src/store/sqlite/queue/new-deliveries.ts';

const common = fc.record({
  destination: fc.constantFrom(1, 1, 1, 2),
  lane: fc.constantFrom(1, 1, 1, 2),
  state: fc.constantFrom(0, 0, 1),
  owner: fc.constantFrom(null, null, 7),
  source: fc.constantFrom(3, 3, 3, 4),
  run: fc.constantFrom(null, null, 5),
});
const own = fc.record({
  now: fc.constantFrom(1_000, 1_001),
  type: fc.nat(6),
  messageId: fc.string(),
  userId: fc.option(fc.string()),
  conflict: fc.option(fc.constantFrom('a', 'b')),
  body: fc.string(),
});
/** Many of a kind in a row, as accepts bring them, of which each gets an id or does not. */
const group = fc.tuple(common, fc.array(fc.tuple(own, fc.boolean()), { maxLength: 80 }));

t.test('writes deliveries in the order of adding, and returns ids to callers that want them', async (t) => {
  const db = new Connection(join(t.testdir(), 'deliveries.db'));
  t.teardown(() => db.close());
  await migrate(db);
  await fc.assert(
    fc.asyncProperty(fc.array(group, { maxLength: 6 }), fc.nat(5), async (groups, early) => {
      await db.transaction(() => {
        db.run('DELETE FROM delivery');
        const handed: Handed[] = [];
        const deliveries = new NewDeliveries(db);
        const expected = groups.flatMap(([shared, list]) => list.map(([each]) => ({ ...shared, ...each })));
        let count = 0;
        for (const [place, [shared, list]] of groups.entries()) {
          for (const [each, isHanded] of list) {
            const asks = isHanded ? { message: count, destination: `d${shared.destination}`, id: 0 } : null;
            if (asks !== null) handed.push(asks);
            deliveries.add(shared, each, asks);
            count += 1;
          }
          if (place === early) deliveries.writeOf(shared.destination);
        }
        deliveries.write();
        const rows = db.all(
          `SELECT id, destination, lane, state, owner, source, run, due_at, accepted_at AS now, type, message_id AS messageId,
             user_id AS userId, conflict, body FROM delivery WHERE tries = 0 ORDER BY id`,
        );
        for (const destination of [1, 2]) {
          const written = rows.filter((row) => row['destination'] === destination);
          const added = expected.filter((each) => each.destination === destination);
          deepStrictEqual(
            written.map(({ id: _id, due_at: _due, ...row }) => ({ ...row })),
            added.map(({ destination, lane, state, owner, source, run, ...rest }) => ({
              ...{ destination, lane, state, owner, source, run },
              ...rest,
            })),
          );
        }
        const asked = groups.flatMap(([, list]) => list.map(([, isHanded]) => isHanded));
        const found = handed.map(({ message: index, destination, id }) => {
          const row = rows.find((each) => each['id'] === id);
          const { body, messageId, destination: expectedOne } = expected[index] ?? {};
          deepStrictEqual([row?.['body'], row?.['messageId'], destination], [body, messageId, `d${expectedOne}`]);
          return index;
        });
        deepStrictEqual(
          found,
          [...asked.keys()].filter((index) => asked[index]),
        );
      });
    }),
    { numRuns: 40 },
  );
  t.pass();
});
