import { spawnSync } from 'node:child_process';
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { launch, track } from '../helpers/program.ts';
import { Ledger, SECRET } from './ledger.ts';

/** Null if a program can be given another hosts file and name server; otherwise why not. */
export const whyNoNames = (() => {
  const { status } = spawnSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'none', '/mnt']);
  return status === 0 ? null : 'making a mount namespace is not permitted here';
})();

/** Port 53 of this address is nobody else's, also if several processes run this. */
const NAME_SERVER = `127.53.${(process.pid >> 8) & 255}.${1 + (process.pid & 127)}`;
const PER_STEP = 5;

/**
 * The name server is silent and the hosts file lists one of the endpoints. The others become known one after the other, by
 * a way of `ways`. An endpoint must get everything as soon as it is known, and nobody may wait for those that are not.
 */
export async function namesRound(t: Test, ways: readonly ('hosts file' | 'name server')[]): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-names-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const names = ['listed', ...ways.map((_, n) => `named-${n}`)];
  const ledgers = names.map(() => new Ledger(false));
  const ports = await Promise.all(ledgers.map((ledger) => ledger.listen()));
  t.teardown(() => ledgers.forEach((ledger) => void ledger.close()));
  const answered = new Set<string>();
  const server = await startNameServer(answered);
  t.teardown(() => server.close());
  const hosts = (listed: readonly string[]) =>
    writeFileSync(join(folder, 'hosts'), ['localhost', ...listed].map((name) => `127.0.0.1 ${name}\n`).join(''));
  const inHosts = ['listed.test'];
  hosts(inHosts);
  writeFileSync(join(folder, 'resolv.conf'), `nameserver ${NAME_SERVER}\n`);
  writeFileSync(join(folder, 'rollcall.yaml'), configuration(names, ports));

  const mount = 'for f in hosts resolv.conf; do mount --bind "$0/$f" "/etc/$f" || exit 1; done; exec "$@"';
  const within = ['unshare', '--mount', 'sh', '-c', mount, folder];
  const service = launch(['start', '-c', join(folder, 'rollcall.yaml')], '', within);
  t.teardown(() => service.child.kill('SIGKILL'));
  const address = (await service.address) ?? '';
  const sent: string[] = [];
  const hasAll = async (ledger: Ledger) => {
    while (!sent.every((id) => ledger.messages.has(id))) await ledger.accepted(1);
  };
  for (const [step, way] of ways.entries()) {
    for (let n = 0; n < PER_STEP; n += 1) {
      const id = `m${step}-${n}`;
      t.equal(await track(address, 'key', id), 200);
      sent.push(id);
    }
    const [listed, ...others] = ledgers;
    if (listed) await hasAll(listed);
    t.same(
      others.slice(step).map(({ received }) => received),
      others.slice(step).map(() => 0),
    );
    const name = `named-${step}.test`;
    if (way === 'name server') answered.add(name);
    else inHosts.push(name);
    hosts(inHosts);
    const ledger = others[step];
    if (ledger) await hasAll(ledger);
  }
  t.equal(
    ledgers.reduce((sum, { unverified }) => sum + unverified, 0),
    0,
  );
  service.child.kill('SIGTERM');
  t.equal((await service.ended).code, 0);
}

/** Answers queries for 127.0.0.1 by names of this set, and no others. */
async function startNameServer(answered: ReadonlySet<string>): Promise<Socket> {
  const socket = createSocket('udp4');
  socket.on('message', (query, { port, address }) => {
    const end = query.indexOf(0, 12) + 1;
    const name = query.toString('latin1', 13, end - 1).replaceAll(/[^\w-]/g, '.');
    if (!answered.has(name)) return;
    const isA = query.readUInt16BE(end) === 1;
    const head = Buffer.from([0x81, 0x80, 0, 1, 0, isA ? 1 : 0, 0, 0, 0, 0]);
    const answer = Buffer.from(isA ? [0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1] : []);
    socket.send(Buffer.concat([query.subarray(0, 2), head, query.subarray(12, end + 4), answer]), port, address);
  });
  socket.bind(53, NAME_SERVER);
  await once(socket, 'listening');
  return socket;
}

function configuration(names: readonly string[], ports: readonly number[]): string {
  return JSON.stringify({
    listen: { host: '127.0.0.1', port: 0 },
    network: { allow: ['127.0.0.0/8'] },
    sources: [{ id: 'shop', writeKey: 'key' }],
    destinations: names.map((name, n) => ({
      ...{ name, sources: ['shop'], sharedSecret: SECRET, webhookUrl: `http://${name}.test:${ports[n]}/` },
    })),
  });
}
