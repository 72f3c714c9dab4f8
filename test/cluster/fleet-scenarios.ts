import { randomInt } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { startFastPostgres } from '../helpers/postgres.ts';
import { FleetRun } from './fleet.ts';
import { randomVariant, WHOLE } from './fleet-config.ts';

/** `npm run test:cluster` is the long version. FLEET_SEED=N repeats the configurations of a run. */
const seconds = process.env['CLUSTER_SECONDS'];
export const isShort = seconds === undefined;
const SEED = Number(process.env['FLEET_SEED'] ?? randomInt(2 ** 31));
t.comment(`FLEET_SEED=${SEED}`);
/** `removedAfter` of destinations that come and go. */
const GRACE = isShort ? 2_000 : 5_000;
t.setTimeout(isShort ? 590_000 : 1_200_000);

/** An empty database of a server that ends with the test. */
export async function postgres(t: Test): Promise<string> {
  const server = await startFastPostgres();
  t.teardown(() => server.stop());
  const database = await server.database();
  await migratePostgres(database);
  return database;
}

async function open(t: Test, removedAfter: string, database?: string): Promise<FleetRun> {
  const fleet = await FleetRun.create({ removedAfter, seed: SEED, ...(database === undefined ? {} : { database }) });
  t.teardown(async () => {
    const said = await fleet.close();
    if (!t.passing()) t.comment(said);
  });
  return fleet;
}

interface Shape {
  readonly processes: number;
  readonly kills: boolean;
  readonly rolls: number;
  readonly database?: string;
}

/** Rolls forward and back under load; nothing is lost, buried too early, or turned back. */
export async function rollToAndFro(t: Test, { processes, kills, rolls, database }: Shape): Promise<void> {
  const fleet = await open(t, '1h', database);
  for (let n = 0; n < processes; n += 1) await fleet.start(randomVariant(fleet.random));
  fleet.load();
  const end = performance.now() + Number(seconds ?? 0) * 1_000;
  for (let roll = 0; roll < rolls || performance.now() < end; roll += 1) await fleet.roll({ kills, once: !isShort });
  // On a busy machine it goes on until there was something to lose.
  await fleet.until(() => fleet.expected.size > 100);
  await fleet.settle();
  const turns = await fleet.turns('big');
  const { starts, reloads, once } = fleet.counts;
  t.comment(JSON.stringify({ ...fleet.counts, expected: fleet.expected.size, turns }));
  t.ok(fleet.expected.size > 100, 'there was load');
  t.same(fleet.missing().slice(0, 5), [], 'nothing acknowledged is lost');
  t.same(fleet.astray(), [], 'everybody is told what the last configuration says');
  t.equal(fleet.ledger.backwards, 0, 'no change came after a newer one');
  t.equal(fleet.ledger.unsigned, 0);
  t.same((await fleet.deadLetters()).slice(0, 3), [], 'nothing is buried');
  t.ok(turns <= starts + reloads + once, `an audience changes hands with a start only: ${turns}`);
}

/** A destination that fewer and fewer know, a downtime, and its end. */
export async function comeAndGo(t: Test, database?: string): Promise<void> {
  const fleet = await open(t, `${GRACE}ms`, database);
  const without = { ...WHOLE, erp: 'removed' } as const;
  fleet.ledger.down.add('erp');
  await fleet.start(WHOLE);
  await fleet.start(without);
  fleet.load();
  await fleet.until(() => fleet.expected.size > 200);
  // One that knows it and one that does not, for longer than the grace period.
  await pause(1.4 * GRACE);
  t.same(await fleet.deadLetters(), [], 'one process knows it');
  await fleet.endLoad();
  await fleet.stopAll();
  await pause(1.4 * GRACE);
  const counting = fleet
    .untilOrphans((orphans) => orphans.some(({ unknownFor }) => unknownFor > 0))
    .then((letters) => t.same(letters, [], 'a downtime does not count'));
  await Promise.all([fleet.startAll(without), counting]);
  await fleet.untilOrphans((orphans) => orphans.length === 0);
  const letters = await fleet.deadLetters();
  t.same(
    new Set(letters.map(({ destination, reason }) => `${destination} ${reason}`)),
    new Set(['erp destination_removed']),
  );
  const dead = new Set(letters.map(({ messageId }) => `erp ${messageId}`));
  const left = fleet.missing().filter((each) => each.startsWith('erp ') && !dead.has(each));
  t.same(left, [], 'all of it');
  fleet.ledger.down.delete('erp');
  for (const member of fleet.members) await fleet.change(member, WHOLE, 'reload');
  t.equal(await fleet.replay(letters), letters.length);
  await fleet.settle();
  t.same(fleet.missing(), []);
  t.same(fleet.astray(), []);
}
