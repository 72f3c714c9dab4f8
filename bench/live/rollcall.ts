/** The service, with live definitions, an event log and one destination. Says what the steps did when asked. */
import { pino } from 'pino';
import { App } from '../../src/app.ts';
import { parseConfig } from '../../src/config/load.ts';

const { url, folder, events, sink, definitions } = JSON.parse(process.argv[2] ?? '{}') as {
  url: string;
  folder: string;
  /** Of the log's files. */
  events: string;
  sink: number;
  definitions: number;
};
const SEQUENCES = 15;

function definition(number: number): object {
  if (number === 0) return { performed: 'Order Completed', atLeast: 10_000, within: '90 days' };
  const event = { performed: `Event ${number % 50}` };
  const [half, within] = [Math.floor(number / 50), '30 days'];
  if (number % 50 > SEQUENCES || half > 1) return { ...event, atLeast: 2 + half, within };
  const never = { not: { performed: 'Order Completed' }, after: { atMost: '1 hour' } };
  return { sequence: [event, half === 0 ? event : never], within };
}

const config = {
  store: url,
  listen: { port: 0 },
  network: { allow: ['127.0.0.0/8'] },
  sources: [
    { id: 'shop', writeKey: 'key' },
    { id: 'personas', writeKey: 'personas' },
  ],
  // On Postgres it has to be the store's own database.
  ...(url.startsWith('postgres') ? { engines: { lake: { type: 'postgres', url } } } : {}),
  eventLog: { path: events, keep: '4000d' },
  destinations: [{ name: 'crm', sources: ['personas'], webhookUrl: `http://127.0.0.1:${sink}/` }],
  // Half of them ask for two of an event, which each person who does it does; the others for three, which nobody does.
  // One asks for what the people of a history did, of whom hardly any is a member. Of each half, 15 are sequences: an
  // event twice, which makes the same changes, and an event that is not answered within an hour.
  audiences: Array.from({ length: definitions }, (_, number) => ({
    name: `Live ${number}`,
    source: 'personas',
    live: true,
    when: definition(number),
  })),
};
const parsed = parseConfig(JSON.stringify(config), { file: 'rollcall.yaml', folder, env: {} });
const app = await App.create(parsed, { log: pino({ level: 'error' }, pino.destination(2)) });
await app.start({ collect: true, schedules: true });
const ready = async () => (await app.sync.audiences()).every(({ live }) => live !== null && live.hold === null);
while (!(await ready())) await new Promise((resolve) => setTimeout(resolve, 500));
process.send?.(app.address);
process.on('message', async (message) => {
  if (message === 'stop') {
    await app.close();
    process.exit();
  }
  const text = await app.metrics.registry.getMetricsAsJSON();
  const statuses = await app.sync.audiences();
  const { user, system } = process.cpuUsage();
  process.send?.({
    cpu: user + system,
    maxMemory: process.resourceUsage().maxRSS * 1_024,
    lag: statuses[0]?.live?.lag ?? null,
    ids: statuses[0]?.live?.ids ?? 0,
    metrics: text.filter(({ name }) => name.startsWith('rollcall_live')),
  });
});
