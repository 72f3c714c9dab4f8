import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

const contentLength = /\r\ncontent-length: (\d+)\r\n/i;

/** Whole responses end where their content-length says; anything but 200 stops the benchmark. */
function isComplete(response: string): boolean {
  const end = response.indexOf('\r\n\r\n');
  if (end === -1) return false;
  if (!response.startsWith('HTTP/1.1 200 ')) throw new Error(`unexpected answer: ${response}`);
  const length = Number(contentLength.exec(response)?.[1]);
  return response.length - end - 4 >= length;
}

/** Sends one request after the other until there are none left. */
function drive(socket: Socket, next: () => Buffer | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    let response = '';
    const send = () => {
      const request = next();
      if (request === undefined) resolve();
      else socket.write(request);
    };
    socket.setEncoding('latin1').on('error', reject);
    socket.on('data', (chunk: string) => {
      response += chunk;
      try {
        if (!isComplete(response)) return;
      } catch (error) {
        return reject(error);
      }
      response = '';
      send();
    });
    send();
  });
}

/**
 * Sends prepared requests over keep-alive connections, one at a time on each. Bare sockets, because an HTTP
 * client costs as much as the servers that are measured here, and there are only two cores.
 */
export async function load(port: number, requests: Buffer[], connections: number): Promise<void> {
  const sockets = Array.from({ length: connections }, () => connect({ port, host: '127.0.0.1', noDelay: true }));
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  // Never asleep: otherwise the slower servers would also pay for waking this process with every answer.
  let busy = setImmediate(function spin() {
    busy = setImmediate(spin);
  });
  let sent = 0;
  await Promise.all(sockets.map((socket) => drive(socket, () => requests[sent++])));
  clearImmediate(busy);
  for (const socket of sockets) socket.destroy();
}
