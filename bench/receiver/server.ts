/** One contender in a process of its own: `server.ts NAME`. Tells its port, and on any message how much it handled. */
import type { AddressInfo } from 'node:net';
import { handledCount, servers } from './servers.ts';

const app = servers[process.argv[2] as string]!();
await app.listen({ port: 0, host: '127.0.0.1' });
process.on('message', () => process.send?.(handledCount()));
process.send?.((app.server.address() as AddressInfo).port);
