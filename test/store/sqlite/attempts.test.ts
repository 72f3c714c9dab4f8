import { deepStrictEqual } from 'node:assert';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { type Attempt, type Claim, LANES, NO_MARKS, OUTCOMES, type Settlement } from '../../../src/store/port.ts';
import { Connection } from '../../../src/store/sqlite/connection.ts';
import { migrate } from '../../../src/store/sqlite/migrate.ts';
import { NewDeliveries } from '../../../src/store/sqlite/queue/new-deliveries.ts';
import { settle } from '../../../src/store/sqlite/queue/settle.ts';
import { PackedSettlements } from '../../../src/store/sqlite/thread/packed-settlements.ts';
import { CLAIMED } from '../../../src/store/states.ts';

const OWNER = 7;
const TRACK = 1;

const attempt: fc.Arbitrary<Attempt> = fc.record({
  endpoint: fc.constantFrom('e1', 'e1', 'e1', 'e2'),
  at: fc.integer({ min: 1_000, max: 1_100 }),
  ms: fc.nat(50),
  outcome: fc.constantFrom('success', 'success', 'success', 'retry'),
  status: fc.constantFrom(200, 200, 200, null),
  error: fc.constantFrom(null, null, null, 'timeout'),
  response: fc.constantFrom(null, null, null, 'no'),
});
const delivery = fc.record({
  destination: fc.constantFrom('d1', 'd1', 'd1', 'd2'),
  source: fc.constantFrom('s1', 's1', 's1', 's2'),
  userId: fc.option(fc.string()),
});
/** A delivery with attempts of its own, or several with one request for all. Those of a claim that was lost have no row any more. */
const single = fc.record({
  ...{ deliveries: fc.tuple(delivery), attempts: fc.array(attempt, { maxLength: 3 }), isHeld: fc.boolean() },
});
const batch = fc.record({
  ...{
    deliveries: fc.array(delivery, { minLength: 2, maxLength: 9 }),
    attempts: fc.tuple(attempt),
    isHeld: fc.boolean(),
  },
});
const settlements = fc.array(fc.oneof({ arbitrary: single, weight: 6 }, batch), { maxLength: 90 });

t.test('logs attempts in the order of their settlements, whatever they share', async (t) => {
  const db = new Connection(join(t.testdir(), 'attempts.db'));
  t.teardown(() => db.close());
  await migrate(db);
  await fc.assert(
    fc.asyncProperty(settlements, async (requests) => {
      await db.transaction(() => {
        db.run('DELETE FROM delivery');
        db.run('DELETE FROM attempt');
        const all = requests.flatMap(({ deliveries, ...rest }) => deliveries.map((each) => ({ ...each, ...rest })));
        const settled = all.map(({ isHeld, attempts, ...each }, place): Settlement => {
          const messageId = `m${place}`;
          const id = isHeld ? insert(db, messageId, each) : 1_000_000_000 + place;
          return {
            claim: { ...claimed, ...each, id: String(id), messageId },
            verdict: { kind: 'delivered' },
            attempts,
          };
        });
        settle(db, 2_000, new PackedSettlements(OWNER, settled, 5, Number, false));
        const logged = db.all(
          `SELECT (SELECT value FROM name WHERE id = destination) AS destination, delivery, message_id AS messageId,
             (SELECT value FROM name WHERE id = source) AS source, (SELECT value FROM name WHERE id = endpoint) AS endpoint,
             type, user_id AS userId, at, ms, outcome, status, error, response FROM attempt ORDER BY id`,
        );
        const expected = settled.flatMap(({ claim: { id, destination, source, messageId, userId }, attempts }) =>
          attempts.map(({ at, outcome, ...rest }) => ({
            ...{ destination, source, messageId, userId, ...rest },
            ...{ delivery: Number(id), type: TRACK, at: at + 5, outcome: OUTCOMES.indexOf(outcome) },
          })),
        );
        deepStrictEqual(
          logged.map((row) => ({ ...row })),
          expected,
        );
      });
    }),
    { numRuns: 60 },
  );
  t.pass();
});

const claimed: Omit<Claim, 'id' | 'messageId' | 'destination' | 'source' | 'userId'> = {
  ...{ type: 'track', body: '{}', lane: 'live', conflict: null, run: null },
  ...{ tries: 0, acceptedAt: 1_000, firstAt: null, marks: NO_MARKS, crashes: 0 },
};

/** Returns its id. */
function insert(
  db: Connection,
  messageId: string,
  { destination, source, userId }: { destination: string; source: string; userId: string | null },
): number {
  const names = { destination: db.nameId(destination), source: db.nameId(source) };
  const common = { ...names, lane: LANES.indexOf('live'), state: CLAIMED, owner: OWNER, run: null };
  const handed = { message: 0, destination: '', id: 0 };
  const deliveries = new NewDeliveries(db);
  deliveries.add(common, { now: 1_000, type: TRACK, messageId, userId, conflict: null, body: '{}' }, handed);
  deliveries.write();
  return handed.id;
}
