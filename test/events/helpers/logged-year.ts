import type { Test } from 'tap';
import type { App } from '../../../src/app.ts';
import { COLUMNS } from '../../../src/store/events/columns.ts';
import { loggingService, send } from './logging-app.ts';
import { eventOf, YEAR_AUDIENCES, YEAR_DATES } from './year.ts';

const DAY = 86_400_000;

interface OtherEngine {
  readonly engine: object;
  readonly sql: Readonly<Record<string, string>>;
}

/**
 * A year of 3,000 events in the sealed files of a log, for another database that reads them.
 *
 * @param eventLog - settings of the log
 */
export async function loggedYear(t: Test, eventLog: object = { path: './events' }) {
  const service = loggingService(t);
  const collector = await service.open([], { eventLog });
  await collector.start({ collect: true, schedules: false });
  const now = service.clock.now();
  const events = Array.from({ length: 3_000 }, (_, n) => eventOf(n, now));
  for (let from = 0; from < events.length; from += 500) await send(collector, events.slice(from, from + 500));
  await collector.close();
  return {
    /** The configuration's, below which the log is in `events`. */
    folder: service.folder,
    /** The columns of the files as another database declares them. */
    columns: (text: string, time: string) =>
      COLUMNS.map((name) => `"${name}" ${name === 'timestamp' || name === 'received_at' ? time : text}`).join(', '),
    /** Compares the members that the other engine finds, on five dates, with those of DuckDB. */
    async compare({ engine, sql }: OtherEngine): Promise<void> {
      const engines = { lake: { type: 'duckdb', path: './audiences.duckdb' }, other: engine };
      // A held run would leave both sides with the members of an earlier date.
      const common = { source: 'personas', guard: 'off' };
      const audiences = YEAR_AUDIENCES.flatMap(({ key, when }) => [
        { ...common, name: key, key, engine: 'lake', when },
        { ...common, name: `${key} elsewhere`, key: `${key}_other`, engine: 'other', sql: sql[key] },
      ]);
      const app = await service.open([], { engines, audiences, eventLog });
      for (const at of YEAR_DATES.map((days) => now + days * DAY)) {
        for (const { key, error } of await app.sync.run([], { now: at }))
          if (error) throw new Error(`${key}: ${error.message}`);
        for (const { key } of YEAR_AUDIENCES) {
          const [own, theirs] = [await membersOf(app, key), await membersOf(app, `${key}_other`)];
          t.strictSame(theirs, own, `${key} of ${new Date(at).toISOString().slice(0, 10)}: ${own.length} members`);
        }
      }
      t.ok((await membersOf(app, 'lapsed')).length > 50, 'there was somebody to find');
    },
  };
}

async function membersOf(app: App, key: string): Promise<readonly string[]> {
  const found: string[] = [];
  await app.sync.members(key, async ({ userIds }) => void found.push(...userIds));
  return found.toSorted();
}
