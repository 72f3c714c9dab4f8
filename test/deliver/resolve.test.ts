import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { createResolve } from '../../src/deliver/http/resolve.ts';
import { ATTEMPT_TIMEOUT } from '../../src/kernel/retry.ts';
import { destination, Rig } from './helpers/rig.ts';

const A = 1;
const AAAA = 28;

/** A name server that gives these addresses, by type of record, and is silent about the others. */
async function nameServer(t: Test, records: Readonly<Record<number, readonly number[]>>): Promise<string> {
  const socket = createSocket('udp4');
  socket.on('message', (query, { port, address }) => {
    const type = query.readUInt16BE(query.indexOf(0, 12) + 1);
    const record = records[type];
    if (!record) return;
    const question = query.subarray(12, query.indexOf(0, 12) + 5);
    const head = Buffer.from([0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    const answer = Buffer.from([0xc0, 0x0c, 0, type, 0, 1, 0, 0, 0, 0, 0, record.length, ...record]);
    socket.send(Buffer.concat([query.subarray(0, 2), head, question, answer]), port, address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  t.teardown(() => socket.close());
  return `127.0.0.1:${socket.address().port}`;
}

const TICK = 50;

/** Its result within the time of an attempt. Counted in ticks: while a busy machine keeps this process waiting, none passes. */
function inTime<T>(result: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  let left = ATTEMPT_TIMEOUT / TICK;
  const timer = setInterval(() => {
    left -= 1;
    if (left === 0) reject(new Error('It took longer than an attempt may.'));
  }, TICK);
  return Promise.race([result, promise]).finally(() => clearInterval(timer));
}

const LOOPBACK_6 = [...Array(15).fill(0), 1];

t.test('finds addresses of both families', async (t) => {
  const resolve = createResolve([await nameServer(t, { [A]: [192, 0, 2, 7], [AAAA]: LOOPBACK_6 })]);
  t.same(await inTime(resolve('both.example')), [
    { address: '192.0.2.7', family: 4 },
    { address: '::1', family: 6 },
  ]);
});

t.test('leaves time for an attempt if a name server is silent about one family', async (t) => {
  const resolve = createResolve([await nameServer(t, { [A]: [192, 0, 2, 7] })]);
  t.same(await inTime(resolve('half.example')), [{ address: '192.0.2.7', family: 4 }]);
});

t.test('fails within the time of an attempt if the name server never answers', async (t) => {
  const resolve = createResolve([await nameServer(t, {})]);
  await t.rejects(inTime(resolve('silent.example')), { code: 'ETIMEOUT' });
});

t.test('resolves localhost as the system does', async (t) => {
  const resolve = createResolve([await nameServer(t, {})]);
  const addresses = (await inTime(resolve('localhost'))).map(({ address }) => address);
  t.ok(addresses.includes('127.0.0.1') || addresses.includes('::1'));
});

t.test('prefers the hosts file to DNS, also while DNS is silent', async (t) => {
  const file = join(t.testdir(), 'hosts');
  const lines = ['# 192.0.2.1 app.example', '192.0.2.2 app.example App-Alias # 192.0.2.3', '  ::1\tapp.example', 'x y'];
  writeFileSync(file, lines.join('\r\n'));
  for (const records of [{ [A]: [192, 0, 2, 9], [AAAA]: LOOPBACK_6 }, {}]) {
    const resolve = createResolve([await nameServer(t, records)], file);
    t.same(await inTime(resolve('app.example')), [
      { address: '192.0.2.2', family: 4 },
      { address: '::1', family: 6 },
    ]);
    t.same(await inTime(resolve('app-alias')), [{ address: '192.0.2.2', family: 4 }], 'not DNS for the other family');
  }
});

t.test('notices changes of the hosts file, and does without one', async (t) => {
  const file = join(t.testdir(), 'hosts');
  const resolve = createResolve([await nameServer(t, { [A]: [192, 0, 2, 9], [AAAA]: LOOPBACK_6 })], file);
  const first = async () => (await inTime(resolve('app.example')))[0]?.address;
  t.equal(await first(), '192.0.2.9', 'no file');
  for (const address of ['192.0.2.1', '192.0.2.2', '192.0.2.3']) {
    writeFileSync(`${file}.new`, `${address} app.example\n`);
    renameSync(`${file}.new`, file);
    t.equal(await first(), address);
  }
  writeFileSync(file, '192.0.2.44 app.example\n');
  t.equal(await first(), '192.0.2.44', 'written in place');
  rmSync(file);
  t.equal(await first(), '192.0.2.9', 'removed');
});

t.test('vets the addresses of the hosts file', async (t) => {
  const file = join(t.testdir(), 'hosts');
  writeFileSync(file, '169.254.169.254 inside.example\n');
  const resolve = createResolve([await nameServer(t, {})], file);
  const rig = await Rig.start(t, { destinations: [destination('http://inside.example/')], network: { resolve } });
  await rig.send(1);
  await rig.settled(1);
  t.same(rig.outcomes, [['address_refused', 'address_refused']]);
});
