/** One attack in a process of its own: `attacker.ts NAME PORT`. Only crowds have a write key. */
import { connect, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';

const [name = '', port = ''] = process.argv.slice(2);

function head(headers: string): string {
  return `POST /v1/batch HTTP/1.1\r\nhost: a\r\n${headers}\r\n\r\n`;
}

/** Opens a connection that sends this, and calls back once it is closed or answered. */
function send(bytes: string | Buffer, done: () => void = () => {}): Socket {
  const socket = connect({ port: Number(port), host: '127.0.0.1' });
  socket.on('error', () => {}).once('close', done);
  socket.once('data', () => socket.destroy());
  socket.write(bytes);
  return socket;
}

/** So many at once, each begun again as soon as it is over. */
function forever(count: number, begin: (again: () => void) => void): void {
  for (let n = 0; n < count; n += 1) {
    const again = () => begin(() => setImmediate(again));
    again();
  }
}

function every(ms: number, work: () => void): void {
  setInterval(work, ms);
}

function bomb(body: Buffer): void {
  send(Buffer.concat([Buffer.from(head(`content-encoding: gzip\r\ncontent-length: ${body.length}`)), body]));
}

const nested = gzipSync(`{"batch":[${'['.repeat(249_000)}${']'.repeat(249_000)}]}`);
const long = gzipSync(`{"batch":[${'1,'.repeat(249_000)}1]}`);
/** It says at its end that it holds nothing. */
const lie = Buffer.from(long);
lie.writeUInt32LE(0, lie.length - 4);
const small = gzipSync(
  JSON.stringify({ batch: [{ type: 'track', event: 'Order Completed', userId: 'u', properties: { total: 39.95 } }] }),
);

function crowd(): void {
  const headers = `authorization: Basic V0s6\r\ncontent-encoding: gzip\r\ncontent-length: ${small.length}`;
  const request = Buffer.concat([Buffer.from(head(headers)), small]);
  for (let n = 0; n < 600; n += 1) send(request);
}

const attacks: Record<string, () => unknown> = {
  none: () => {},
  idle: () => forever(300, (again) => send(`${head('content-encoding: gzip\r\ncontent-length: 500000')}x`, again)),
  nested: () => every(1_000 / 30, () => bomb(nested)),
  long: () => every(1_000 / 30, () => bomb(long)),
  lie: () => every(1_000 / 30, () => bomb(lie)),
  crowd: () => every(2_000, crowd),
  'one crowd': () => setTimeout(crowd, 6_000),
  dribble: () =>
    forever(300, (again) => {
      const socket = send(head('content-length: 500000'), again);
      const timer = setInterval(() => socket.write('x'), 500);
      socket.once('close', () => clearInterval(timer));
    }),
  connect: () => forever(1_500, (again) => send('', again)),
};

const attack = attacks[name];
if (!attack) throw new Error(`There is no attack named ${name}.`);
attack();
process.send?.(name);
