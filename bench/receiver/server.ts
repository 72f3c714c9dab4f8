/** One contender in a process of its own: `server.ts NAME [async]`. Sends its port, and {@link Told} on any message. */
import type { AddressInfo } from 'node:net';
import { asyncHandler, handledCount, handler, servers } from './servers.ts';

/** How much it has handled, and the CPU that it has used. */
export interface Told {
  readonly handled: number;
  readonly cpuMicros: number;
}

const [, , name = '', kind] = process.argv;
const app = servers[name]!(kind === 'async' ? asyncHandler : handler);
await app.listen({ port: 0, host: '127.0.0.1' });
process.on('message', () => {
  const { user, system } = process.cpuUsage();
  process.send?.({ handled: handledCount(), cpuMicros: user + system } satisfies Told);
});
process.send?.((app.server.address() as AddressInfo).port);
