import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { launch, track } from '../helpers/program.ts';
import { type FileFault, injectFault, whyNoFaults } from './faults.ts';
import { Ledger, SECRET } from './ledger.ts';

const FAULTS: readonly FileFault[] = [
  { calls: 'fsync,fdatasync', error: 'EIO' },
  { calls: 'pwrite64', error: 'EIO' },
  { calls: 'pwrite64', error: 'ENOSPC' },
  { calls: 'pwrite64', error: 'EROFS' },
  { calls: 'pread64', error: 'EIO' },
  { calls: 'openat', error: 'EMFILE' },
  { calls: 'socket', error: 'EMFILE' },
];
const MESSAGES = 60;

for (const fault of FAULTS) {
  const name = `${fault.calls} fail with ${fault.error}`;
  t.test(`loses nothing that was acknowledged while ${name}`, { skip: whyNoFaults ?? false }, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'rollcall-fault-'));
    t.teardown(() => rmSync(folder, { recursive: true }));
    const ledger = new Ledger(false);
    const port = await ledger.listen();
    t.teardown(() => ledger.close());
    const config = join(folder, 'rollcall.yaml');
    writeFileSync(config, configuration(port));
    const acknowledged: string[] = [];
    for (const isBroken of [true, false]) {
      const service = launch(['start', '-c', config]);
      t.teardown(() => service.child.kill('SIGKILL'));
      const address = (await service.address) ?? '';
      const injected = isBroken ? await injectFault(service.child.pid ?? 0, fault) : null;
      for (let sent = 0; sent < MESSAGES; sent += 1) {
        const id = `m${isBroken}-${sent}`;
        if (sent === MESSAGES / 2) await injected?.end();
        if ((await track(address, 'key', id)) === 200) acknowledged.push(id);
      }
      if (isBroken) service.child.kill('SIGKILL');
      else while (!acknowledged.every((id) => ledger.messages.has(id))) await ledger.accepted(1);
      if (!isBroken) service.child.kill('SIGTERM');
      await service.ended;
    }
    t.comment(`${acknowledged.length} of ${2 * MESSAGES} acknowledged`);
    t.ok(acknowledged.length >= MESSAGES, 'all are taken once it is repaired');
    t.equal(ledger.unverified, 0);
  });
}

function configuration(port: number): string {
  const webhooks = [{ url: `http://127.0.0.1:${port}/` }];
  return JSON.stringify({
    listen: { host: '127.0.0.1', port: 0 },
    network: { allow: ['127.0.0.0/8'] },
    sources: [{ id: 'shop', writeKey: 'key' }],
    destinations: [{ name: 'crm', sources: ['shop'], sharedSecret: SECRET, webhooks }],
  });
}
