/** One contender in a process of its own: `server.ts NAME [async]`. Sends its port, and on any message how much it handled. */
import type { AddressInfo } from 'node:net';
import { asyncHandler, handledCount, handler, servers } from './servers.ts';

const [, , name = '', kind] = process.argv;
const app = servers[name]!(kind === 'async' ? asyncHandler : handler);
await app.listen({ port: 0, host: '127.0.0.1' });
process.on('message', () => process.send?.(handledCount()));
process.send?.((app.server.address() as AddressInfo).port);
