import { subscribe } from 'node:diagnostics_channel';
import { pino } from 'pino';
import { App } from '../../src/app.ts';
import { loadConfig } from '../../src/config/load.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { armFailpoint, type Failpoint } from '../../src/kernel/failpoint.ts';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';

/** The arguments that the parent gives this process on its command line. */
interface Orders {
  readonly config: string;
  readonly failpoint: { readonly name: Failpoint; readonly passes: number } | null;
  /** Sync all audiences as of this time, once collection listens. */
  readonly syncAsOf: number | null;
  /** How far its clock is ahead of the machine's, in milliseconds. */
  readonly ahead: number;
  /** Ends the process whenever this text is on its way to an endpoint, as a delivery would that we can't stand. */
  readonly poison?: string | null;
}

const orders = JSON.parse(process.argv[2] ?? '{}') as Orders;
if (orders.failpoint) armFailpoint(orders.failpoint.name, orders.failpoint.passes);
const { poison } = orders;
if (poison) {
  subscribe('undici:client:sendHeaders', (sent) => {
    const { body } = (sent as { request: { body: Buffer | null } }).request;
    if (body?.includes(poison)) process.kill(process.pid, 'SIGKILL');
  });
}
const config = loadConfig(orders.config);
process.chdir(config.folder);
if (config.store.url.startsWith('postgres:')) await migratePostgres(config.store.url);
const clock = { ...systemClock, now: () => systemClock.now() + orders.ahead };
const app = await App.create(config, { clock, log: pino({ level: 'error' }, pino.destination(2)) });
process.on('SIGTERM', () => void app.close().then(() => process.disconnect()));
await app.start({ collect: true, schedules: false });
process.send?.({ listening: app.address });
const sync = async (now?: number) => {
  const reports = await app.sync.run(undefined, { now });
  process.send?.({ synced: reports.map(({ key, error }) => ({ key, error: error?.message ?? null })) });
};
process.on('message', () => void sync());
if (orders.syncAsOf !== null) await sync(orders.syncAsOf);
