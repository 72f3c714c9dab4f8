import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A proxy in front of a database, which can cut the answers. */
export interface CutProxy {
  readonly port: number;
  /** Bytes that came from the server since the last cut was set. */
  readonly passed: number;
  /** Cuts every connection once so many bytes more have come from the server; null for never. */
  cutAfter(bytes: number | null, how?: 'end' | 'reset'): void;
  close(): Promise<void>;
}

export async function startCutProxy(port: number): Promise<CutProxy> {
  let left: number | null = null;
  let how: 'end' | 'reset' = 'end';
  let passed = 0;
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect({ port, host: '127.0.0.1' });
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket
        .on('error', () => {})
        .on('close', () => {
          sockets.delete(socket);
          client.destroy();
          upstream.destroy();
        });
    }
    client.pipe(upstream);
    upstream.on('data', (chunk: Buffer) => {
      passed += chunk.length;
      const part = left === null ? chunk : chunk.subarray(0, Math.max(0, left));
      if (left !== null) left -= part.length;
      if (part.length > 0 && !client.write(part)) {
        upstream.pause();
        client.once('drain', () => upstream.resume());
      }
      if (left !== null && left <= 0 && part.length < chunk.length) {
        if (how === 'reset') client.resetAndDestroy();
        else client.end();
        upstream.destroy();
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    get passed() {
      return passed;
    },
    cutAfter(bytes, by = 'end') {
      [left, how, passed] = [bytes, by, 0];
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
