/** Collection in a process of its own: `server.ts on|off|sealed STORE FOLDER`. Tells its port. */
import type { AddressInfo } from 'node:net';
import { pino } from 'pino';
import { type Accept, createAccept } from '../../src/accept.ts';
import { collect } from '../../src/collect/collect.ts';
import type { Destination, Source } from '../../src/destination.ts';
import { EventLogKeeper } from '../../src/events/keeper.ts';
import { createHttpServer } from '../../src/http/server.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { silentLogger } from '../../src/kernel/log.ts';
import { folderFiles } from '../../src/store/events/files.ts';
import { openStore } from '../../src/store/open.ts';

const [mode = '', url = '', folder = ''] = process.argv.slice(2);
const sources: readonly Source[] = [{ id: 'shop', writeKey: 'WK', enabled: true }];
const destinations: readonly Destination[] = [
  {
    ...{ name: 'crm', enabled: true, sources: ['shop'], secrets: [], require: 'any', ratePerSecond: null },
    endpoints: [{ id: 'e', url: 'http://127.0.0.1:9/', headers: {} }],
  },
];

// Delivery stays off: it costs the same with and without the log.
const store = await openStore({ url, maxQueued: 100_000_000 }, systemClock);
const keep = () => 400 * 86_400_000;
const keeper = new EventLogKeeper({
  store,
  live: store.live,
  clock: systemClock,
  log: silentLogger,
  files: folderFiles(folder),
  keep,
});
if (mode === 'sealed' || store.events.kind === 'table') void keeper.start();
const accept = createAccept(store, () => destinations);
const logged: Accept = (source, messages) => accept(source, messages, { logged: mode !== 'off' });
const app = createHttpServer(pino({ level: 'silent' }), { alive: () => {}, ready: async () => {} });
await app.register(collect, { sources: () => sources, clock: systemClock, accept: logged });
await app.listen({ port: 0, host: '127.0.0.1' });
process.send?.((app.server.address() as AddressInfo).port);
