import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { complaintAbout } from '../../src/cli/node-version.ts';

const ROOT = join(import.meta.dirname, '../..');

t.test('prints one clear line on an older Node', async (t) => {
  for (const version of ['18.19.1', '20.20.2', '22.19.0']) {
    t.equal(complaintAbout(version), `Rollcall needs Node 22.20 or newer. This is Node ${version}.`);
  }
  for (const version of ['22.20.0', '24.0.0', '26.1.0']) t.equal(complaintAbout(version), null);
});

t.test('package.json requires the same Node, and installs the file that checks it', async (t) => {
  const { engines, bin } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  t.equal(engines.node, '>=22.20');
  t.equal(bin.rollcall, 'dist/src/cli/bin.js');
});
