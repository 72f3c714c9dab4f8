import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

// `npm run changeset -- COMMAND`. Changesets knows the packages in `workspaces` only, so the root is one of them while it
// runs. It is none otherwise: npm would build it twice at each install.
const MANIFEST = join(import.meta.dirname, '../package.json');
const USUAL = '"workspaces": [\n';
const WITH_ROOT = `${USUAL}    ".",\n`;

function replace(from: string, to: string): void {
  const text = readFileSync(MANIFEST, 'utf8');
  if (!text.includes(from)) throw new Error(`package.json has no ${from}`);
  writeFileSync(MANIFEST, text.replace(from, to));
}

// A signal ends Changesets, which the terminal tells of Ctrl-C itself; here it would leave the root in the file.
process.on('SIGINT', () => {});
process.on('SIGTERM', () => changesets.kill());
replace(USUAL, WITH_ROOT);
process.on('exit', () => replace(WITH_ROOT, USUAL));
const changesets = spawn('npx', ['--yes', '@changesets/cli@2', ...process.argv.slice(2)], { stdio: 'inherit' });
changesets.on('exit', (status) => {
  process.exitCode = status ?? 1;
});
