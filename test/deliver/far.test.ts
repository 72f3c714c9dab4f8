import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';

const mayUnshare = spawnSync('unshare', ['--net', '--mount', 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0;

t.test(
  'reaches a far host with A and AAAA records from a machine without IPv6, on every kind of connection',
  { ...(mayUnshare ? {} : { skip: 'making a network namespace is not permitted here' }) },
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'rollcall-hosts-'));
    t.teardown(() => rmSync(folder, { recursive: true }));
    writeFileSync(join(folder, 'hosts'), '127.0.0.1 localhost\n127.0.0.1 far.test\n2001:db8::1 far.test\n');
    const script = `ip link set lo up && mount --bind "$1/hosts" /etc/hosts && exec "$2" test/deliver/helpers/far-main.ts`;
    const said = execFileSync('unshare', ['--net', '--mount', 'sh', '-c', script, 'sh', folder, process.execPath]);
    t.same(JSON.parse(String(said)), { delivery: true, postgres: true, client: true });
  },
);
