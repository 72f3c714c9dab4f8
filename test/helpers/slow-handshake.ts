import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { Test } from 'tap';

/** Accepts nothing from its first input on until the kernel drops a connection, or never; answers requests with an empty 200. */
const PROGRAM = `
  const { readFileSync } = require('node:fs');
  const nap = (milliseconds) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
  const drops = () => {
    const [names, counts] = readFileSync('/proc/net/netstat', 'utf8').split('\\n').map((line) => line.split(' '));
    return counts[names.indexOf('ListenDrops')];
  };
  const server = require('node:net').createServer((socket) => {
    socket.on('error', () => {}).on('data', () => {
      process.stdout.write('received');
      socket.write('HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n');
    });
  });
  server.listen({ host: '127.0.0.1', port: 0, backlog: 1 }, () => process.stdout.write(String(server.address().port)));
  process.stdin.once('data', (input) => {
    const before = drops();
    process.stdout.write('blocked', () => {
      while (String(input) === 'forever' || drops() === before) nap(10);
    });
  });
`;

/**
 * A server whose next handshake takes a second, or longer than any attempt with `forever`: its queue of connections is full, so
 * that the kernel drops the first SYN, and the sender repeats it after a second.
 *
 * @returns its port on 127.0.0.1, and a promise of the first request
 */
export async function slowHandshake(
  t: Pick<Test, 'teardown'>,
  forever = false,
): Promise<{ readonly port: number; readonly first: Promise<string> }> {
  const child = spawn(process.execPath, ['-e', PROGRAM], { stdio: ['pipe', 'pipe', 'inherit'] });
  const fillers: Socket[] = [];
  t.teardown(() => {
    for (const socket of fillers) socket.destroy();
    child.kill('SIGKILL');
  });
  const port = Number(await said(child.stdout));
  child.stdin.write(forever ? 'forever' : 'once');
  await said(child.stdout);
  for (let count = 0; count < 2; count += 1) {
    const socket = connect(port, '127.0.0.1').on('error', () => {});
    fillers.push(socket);
    await once(socket, 'connect');
  }
  return { port, first: said(child.stdout) };
}

async function said(output: NodeJS.ReadableStream): Promise<string> {
  return String((await once(output, 'data'))[0]);
}
