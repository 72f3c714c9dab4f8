import t from 'tap';
import { Cluster, LEAST } from './cluster.ts';

const seed = Number(process.env['CLUSTER_SEED'] ?? Math.floor(Math.random() * 2 ** 32));
const long = process.env['CLUSTER_SECONDS'];
t.setTimeout(long === undefined ? 590_000 : 800_000);

t.test(
  'loses nothing acknowledged and keeps membership right, whatever happens to processes and database',
  async (t) => {
    const report = await Cluster.run(
      long === undefined
        ? { processes: 3, duration: 5_000, speed: 10, every: 700, seed }
        : { processes: 4, duration: Number(long) * 1_000, speed: 5, every: 1_500, seed },
    );
    t.comment(JSON.stringify(report));
    t.ok(report.accepted > LEAST.accepted, 'there was load');
    t.ok(report.ticks > LEAST.ticks, 'there were syncs');
    t.equal(report.lost, 0);
    t.ok(report.backwards <= report.faults.stop, 'only a process that was stopped can bring an older value late');
    t.equal(report.wrong, 0, 'every user ends with the value of the last tick');
    t.ok(report.schedule.once > 0, 'the scheduled audience was run');
    t.equal(report.schedule.twice, 0, 'no tick was served twice');
    t.equal(report.astray, 0, 'and its members are those of its last run');
    const { requests, told, unfinished, late, suppressed, untold } = report.deletions;
    t.ok(requests > 3 && told > 0, 'users were deleted, and some of them had been told of');
    t.equal(unfinished, 0, 'every request that deletes is finished');
    t.equal(untold, 0, 'who was told of the user is told of the deletion');
    t.equal(late, 0, 'what was computed before a deletion comes no more');
    t.equal(suppressed, 0, 'nor does anything about those who are suppressed');
    t.ok(
      report.overlaps <= report.faults.stop,
      'a delivery is posted twice at once only by a process that was stopped',
    );
  },
);
