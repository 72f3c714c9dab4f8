import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { launch, logged, track } from '../helpers/program.ts';
import { until } from '../helpers/until.ts';
import { type FileFault, injectFault, whyNoFaults } from './faults.ts';

const TOKEN = 'a-token-of-this-test';

const FAULTS: Readonly<Record<string, (store: string) => FileFault>> = {
  'writes can not be synced': (store) => ({ calls: 'fsync,fdatasync', error: 'EIO', path: `${store}-wal` }),
  'writes fail': (store) => ({ calls: 'pwrite64', error: 'EIO', path: `${store}-wal` }),
  'its disk is read-only': (store) => ({ calls: 'pwrite64', error: 'EROFS', path: `${store}-wal` }),
};

for (const [name, faultOf] of Object.entries(FAULTS)) {
  t.test(`acknowledges nothing and is not ready while ${name}`, { skip: whyNoFaults ?? false }, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'rollcall-fault-'));
    t.teardown(() => rmSync(folder, { recursive: true }));
    const config = join(folder, 'rollcall.yaml');
    const store = join(folder, 'rollcall.db');
    writeFileSync(
      config,
      `listen: { host: 127.0.0.1, port: 0 }\nadmin: { token: ${TOKEN} }\nsources: [{ id: shop, writeKey: key }]\ndestinations: []\n`,
    );
    const service = launch(['start', '-c', config]);
    t.teardown(() => service.child.kill('SIGKILL'));
    const address = (await service.address) ?? '';
    const ready = async () => (await fetch(`${address}/readyz`)).status;
    t.same([await track(address, 'key', 'm1'), await ready()], [200, 200]);
    const fault = await injectFault(service.child.pid ?? 0, faultOf(store));
    try {
      t.equal(await track(address, 'key', 'm2'), 503);
      for (let look = 1; look <= 5; look += 1) t.equal(await ready(), 503);
      const metrics = await (
        await fetch(`${address}/metrics`, { headers: { authorization: `Bearer ${TOKEN}` } })
      ).text();
      t.match(metrics, /^rollcall_store_up 0$/m);
    } finally {
      await fault.end();
    }
    // Nobody sends anything: the process has to find out itself.
    await until(async () => (await ready()) === 200);
    t.equal(await track(address, 'key', 'm2'), 200);
    service.child.kill('SIGTERM');
    const ended = await service.ended;
    t.equal(ended.code, 0);
    const said = logged(ended).filter(({ path }) => path === '/readyz');
    t.match(
      said,
      [
        { level: 50, code: /^store_/ },
        { level: 30, msg: 'Ready again' },
      ],
      'only changes are logged',
    );
  });
}
