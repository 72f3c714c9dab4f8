import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';

const hasStrace = spawnSync('strace', ['-V']).status === 0;

t.test(
  'syncs to disk between the last write and each acknowledgement',
  { skip: hasStrace ? false : 'strace is not installed' },
  (t) => {
    const folder = t.testdir();
    const trace = join(folder, 'trace');
    const script = new URL('./acknowledge.ts', import.meta.url).pathname;
    const calls = 'trace=pwrite64,write,fsync,fdatasync';
    const child = spawnSync('strace', [
      '-f',
      '-y',
      '-e',
      calls,
      '-o',
      trace,
      process.execPath,
      script,
      join(folder, 'a.db'),
    ]);
    t.equal(child.status, 0, String(child.stderr));
    let unsynced = true;
    let acknowledged = 0;
    for (const line of readFileSync(trace, 'utf8').split('\n')) {
      // A call that another thread interrupted counts from where it ended.
      const isSync = /(fsync|fdatasync)(\(.*a\.db-wal| resumed>).*= 0$/.test(line);
      if (/pwrite64\(.*a\.db-wal/.test(line)) unsynced = true;
      else if (isSync) unsynced = false;
      else if (/write\(1.*acknowledged/.test(line)) {
        acknowledged += 1;
        if (unsynced) t.fail(`acknowledged before the sync: ${line}`);
      }
    }
    t.equal(acknowledged, 25);
    t.end();
  },
);
