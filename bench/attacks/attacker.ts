/**
 * An attack in a process of its own: `attacker.ts NAME`, or `all`. Sends the port of the endpoint that it plays, which is a good
 * one until the message with the {@link Target}. Any later message is answered with {@link Counts}.
 */
import { type AddressInfo, connect as connectPlain, createServer, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { endlessly, write } from '../../test/deliver/helpers/raw-answers.ts';
import { ATTACKS, type Attack } from './table.ts';

export interface Target {
  readonly port: number;
  readonly isTls: boolean;
}

/** Connections opened, requests answered with an error, and connections closed by the other side. */
export interface Counts {
  opened: number;
  refused: number;
  cut: number;
}

const ADDRESSES = 250;

const [name = ''] = process.argv.slice(2);
const attacks = name === 'all' ? Object.values(ATTACKS) : [ATTACKS[name] ?? {}];
const counts: Counts = { opened: 0, refused: 0, cut: 0 };
let target: Target | undefined;

/** Opens a connection, and another one once it has ended. */
function open(attack: Attack, n: number, { port, isTls }: Target): void {
  const { first = () => '', more, endsWithAnswer, reads, again = 5_000 } = attack;
  const options = { port, host: '127.0.0.1', localAddress: `127.0.1.${1 + (n % ADDRESSES)}` };
  const socket: Socket = isTls
    ? connectTls({ ...options, servername: 'localhost', rejectUnauthorized: false })
    : connectPlain(options);
  counts.opened += 1;
  let isOurs = false;
  socket.on('error', () => {});
  if (reads !== false) {
    socket.on('data', (chunk) => {
      if (/^HTTP\/1\.1 [45]/.test(chunk.toString('latin1', 0, 12))) counts.refused += 1;
      if (!endsWithAnswer) return;
      isOurs = true;
      socket.destroy();
    });
  }
  socket.write(first(n));
  const timer = more && setInterval(() => socket.write(more.bytes), more.every);
  socket.on('close', () => {
    clearInterval(timer);
    if (!isOurs) counts.cut += 1;
    setTimeout(() => open(attack, n, { port, isTls }), again);
  });
}

const endpoints = attacks.flatMap(({ endpoint }) => endpoint ?? []);
let answers = 0;
const server = createServer((socket) => {
  socket.setNoDelay(true).on('error', () => {});
  socket.on('data', () => {
    const endpoint = endpoints[answers % endpoints.length];
    if (target === undefined || endpoint === undefined) return socket.write('HTTP/1.1 204 No Content\r\n\r\n');
    answers += 1;
    return void write(socket, endlessly(...endpoint(answers)));
  });
});
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));

process.on('message', async (message) => {
  if (target !== undefined) return process.send?.(counts);
  target = message as Target;
  for (const attack of attacks) {
    for (let n = 0; n < (attack.connections ?? 0); n += 1) {
      open(attack, n, target);
      // A process that only connects would not serve its endpoint.
      if (n % 50 === 49) await pause(10);
    }
  }
});
