import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { program } from './programs.ts';

const MAIN = program('src/cli/main.ts');

/** A folder with a command `rollcall`, as an installation has it. */
export async function installedCommand(folder: string): Promise<string> {
  const bin = join(folder, 'bin');
  await mkdir(bin);
  await writeFile(join(bin, 'rollcall'), `#!/bin/sh\nexec "${process.execPath}" "${MAIN}" "$@"\n`, { mode: 0o755 });
  return bin;
}
