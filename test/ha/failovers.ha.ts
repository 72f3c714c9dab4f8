import pg from 'pg';
import t from 'tap';
import { Cluster, type ClusterDatabase, type Play } from '../cluster/cluster.ts';
import { randomNumbers } from '../cluster/fleet.ts';
import { noCluster, type Patroni, startPatroni } from './patroni.ts';

const seed = Number(process.env['HA_SEED'] ?? Math.floor(Math.random() * 2 ** 32));
const ROUNDS = Number(process.env['HA_ROUNDS'] ?? 10);
/** How soon after a new primary takes writes something new is delivered, in milliseconds. */
const RESUMED_IN = 15_000;

const FAULTS = ['kill', 'crash', 'stop', 'cutOff', 'switchOver'] as const;
type Fault = (typeof FAULTS)[number];

interface Round {
  readonly fault: Fault;
  /** Milliseconds until another took writes, and from then until something new had been delivered. */
  readonly promoted: number;
  readonly resumed: number;
}

/** Each fault as often as the others, in an order that the seed gives. */
function order(random: (most: number) => number): readonly Fault[] {
  const all = Array.from({ length: ROUNDS }, (_, n) => FAULTS[n % FAULTS.length] as Fault);
  return all
    .map((fault) => ({ fault, place: random(2 ** 30) }))
    .sort((a, b) => a.place - b.place)
    .map(({ fault }) => fault);
}

const failovers =
  (patroni: Patroni, rounds: Round[]): Play =>
  async ({ ledger, sent }) => {
    for (const fault of order(randomNumbers(seed))) {
      await patroni.whole();
      const name = (await patroni.primary()) ?? '';
      const machine = patroni.machines.find((each) => each.name === name);
      if (!machine) throw new Error('there is no primary');
      const struck = performance.now();
      if (fault === 'switchOver') await patroni.switchOver(name);
      else machine[fault]();
      await patroni.newPrimary(name);
      const promoted = performance.now();
      const first = sent();
      await ledger.until(() => [...ledger.taken].some((id) => Number(id.slice(1)) >= first));
      rounds.push({
        fault,
        promoted: Math.round(promoted - struck),
        resumed: Math.round(performance.now() - promoted),
      });
      t.comment(JSON.stringify(rounds.at(-1)));
      // It comes back, and follows.
      machine.resume();
      machine.connect();
      machine.start();
    }
    await patroni.whole();
  };

/** The application's database, made through HAProxy, as its owner would. */
async function databaseOn(patroni: Patroni): Promise<ClusterDatabase> {
  const admin = new pg.Client(patroni.url.replace(/[^/]+$/, 'postgres'));
  await admin.connect();
  await admin.query('CREATE DATABASE rollcall');
  await admin.end();
  const none = () => Promise.reject(new Error('the faults are those of the machines'));
  return { url: patroni.url, direct: patroni.url, cut: none, crash: none, close: () => patroni.close() };
}

t.setTimeout(3_000_000);
await t.test(
  `${ROUNDS} failovers of a Patroni cluster under load lose nothing that was acknowledged`,
  { skip: noCluster, timeout: 3_000_000 },
  async (t) => {
    const patroni = await startPatroni();
    const rounds: Round[] = [];
    const options = { processes: 4, duration: 0, speed: 1, every: 2_000, seed };
    const report = await Cluster.run(options, await databaseOn(patroni), failovers(patroni, rounds));
    t.comment(JSON.stringify({ ...report, rounds }));
    t.equal(rounds.length, ROUNDS);
    t.ok(report.accepted > 100 * ROUNDS, 'there was load');
    t.ok(report.ticks > ROUNDS, 'there were syncs');
    t.equal(report.lost, 0, 'nothing acknowledged is lost');
    t.equal(report.backwards, 0, 'no value goes back');
    t.equal(report.wrong, 0, 'every user ends with the value of the last tick');
    t.equal(report.astray, 0, 'the members are those of the last run');
    t.equal(report.schedule.twice, 0, 'no tick was served twice');
    t.equal(report.overlaps, 0, 'no delivery is posted twice at once');
    t.equal(report.deletions.unfinished, 0, 'every request that deletes is finished');
    t.equal(report.deletions.untold, 0, 'who was told of a user is told of the deletion');
    t.equal(report.deletions.late, 0, 'what was computed before a deletion comes no more');
    for (const { fault, resumed } of rounds)
      t.ok(resumed <= RESUMED_IN, `${fault}: deliveries go on after ${resumed} ms`);
  },
);
