/** Runs the packed kit on other versions of Node, taken from npm: `node test/receivers/node-versions.ts [22 26 …]`. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { clean } from './helpers/clean.ts';
import { installPacked, runPacked } from './helpers/packed.ts';

const versions = process.argv.length > 2 ? process.argv.slice(2) : ['22', '24', '26'];
const dir = await mkdtemp(join(tmpdir(), 'receivers-'));
try {
  await installPacked(dir);
  for (const version of versions) {
    const prefix = join(dir, `node-${version}`);
    await mkdir(prefix);
    await writeFile(join(prefix, 'package.json'), '{"private":true,"allowScripts":{"node":true}}');
    await clean('npm', ['install', '--no-audit', '--no-fund', `node@${version}`], prefix);
    const result = await runPacked(dir, join(prefix, 'node_modules', 'node', 'bin', 'node'));
    console.log(JSON.stringify(result));
    if (result.wrong.length > 0 || result.status !== 200) process.exitCode = 1;
  }
} finally {
  await rm(dir, { recursive: true });
}
