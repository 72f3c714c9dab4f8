import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

const here = import.meta.dirname;
const helpers = new Set(['main', 'harness', 'sink']);
const names = readdirSync(here)
  .filter((file) => file.endsWith('.ts') && !file.endsWith('.d.ts'))
  .map((file) => file.slice(0, -3))
  .filter((name) => !helpers.has(name));

/** Installs the peers when they are missing or the lock file is newer. */
function installPeers(): void {
  const marker = join(here, 'node_modules', '.package-lock.json');
  const lock = join(here, 'package-lock.json');
  if (existsSync(marker) && statSync(marker).mtimeMs >= statSync(lock).mtimeMs) return;
  console.error('installing the peers in bench/ …');
  // Standard output belongs to the table and the JSON line.
  const { status } = spawnSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: here, stdio: ['ignore', 2, 2] });
  if (status !== 0) process.exit(status ?? 1);
}

// npm takes the `--` away that comes before options; whoever calls node leaves it in.
const [name = '', ...args] = process.argv.slice(2).filter((arg) => arg !== '--');
if (!names.includes(name)) {
  console.error(`usage: node bench/main.ts NAME [--json] [--rounds N]\nNAME is one of: ${names.join(', ')}`);
  process.exit(2);
}
installPeers();
process.argv = [process.argv[0] as string, join(here, `${name}.ts`), ...args];
await import(`./${name}.ts`);
