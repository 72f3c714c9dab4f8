import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

const here = import.meta.dirname;
const helpers = new Set(['main', 'harness', 'sink', 'bodies']);
const names = readdirSync(here)
  .filter((file) => file.endsWith('.ts') && !file.endsWith('.d.ts'))
  .map((file) => file.slice(0, -3))
  .filter((name) => !helpers.has(name));

/** Installs the peers in a `bench/` when they are missing or the lock file is newer. */
function installPeers(bench: string): void {
  const marker = join(bench, 'node_modules', '.package-lock.json');
  const lock = join(bench, 'package-lock.json');
  if (existsSync(marker) && statSync(marker).mtimeMs >= statSync(lock).mtimeMs) return;
  console.error(`installing the peers in ${bench} …`);
  // Standard output belongs to the table and the JSON line.
  const { status } = spawnSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: bench, stdio: ['ignore', 2, 2] });
  if (status !== 0) process.exit(status ?? 1);
}

// npm takes the `--` away that comes before options; whoever calls node leaves it in.
const [name = '', ...args] = process.argv.slice(2).filter((arg) => arg !== '--');
if (!names.includes(name)) {
  console.error(
    `usage: node bench/main.ts NAME [--json] [--rounds N] [--only A,B] [--sizes KB,KB] [--before DIR]\nNAME is one of: ${names.join(', ')}`,
  );
  process.exit(2);
}
const { before } = parseArgs({ args, strict: false, options: { before: { type: 'string' } } }).values;
if (typeof before === 'string' && !existsSync(join(before, 'bench', 'bodies.ts'))) {
  console.error(
    `--before ${before}: its bench/ knows no sizes of bodies. Put one there that does and fits its sources.`,
  );
  process.exit(2);
}
installPeers(here);
if (typeof before === 'string') installPeers(join(before, 'bench'));
process.argv = [process.argv[0] as string, join(here, `${name}.ts`), ...args];
await import(`./${name}.ts`);
