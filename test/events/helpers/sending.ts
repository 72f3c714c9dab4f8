import { pino } from 'pino';
import { App } from '../../../src/app.ts';
import { parseConfig } from '../../../src/config/load.ts';
import { armFailpoint, type Failpoint } from '../../../src/kernel/failpoint.ts';

/** One life of a service: delivers until its failpoint or its parent ends it, or no send is open any more. */
export interface SendingOrders {
  readonly folder: string;
  readonly config: object;
  readonly crash: { readonly failpoint: Failpoint; readonly passes: number } | null;
}

const { folder, config, crash } = JSON.parse(process.argv[2] ?? '{}') as SendingOrders;
// Before the store's thread starts, which takes it over.
if (crash) armFailpoint(crash.failpoint, crash.passes);
const parsed = parseConfig(JSON.stringify(config), { file: 'rollcall.yaml', folder, env: {} });
const app = await App.create(parsed, { log: pino({ level: 'silent' }) });
await app.start({ collect: false, schedules: true });
process.send?.('started');
for (;;) {
  const found = await app.sends.list({ limit: 100 });
  const isOver = found.every(
    ({ send: { state }, deliveries }) => state !== 'sending' && deliveries.deliveries === deliveries.delivered,
  );
  if (isOver) break;
  await new Promise((resolve) => setTimeout(resolve, 100));
}
await app.close();
process.exit(0);
