import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The right to a folder, kept in a file within it; or why there is none. */
export type Claim = { readonly ok: true; release(): void } | { readonly ok: false; readonly problem: string };

export const CONFIG = 'rollcall.yaml';
/** First line of the shop's own configuration, by which its folder is known. */
export const TITLE = '# The example shop.';
const PID = 'running.pid';
/** Files that a shop leaves behind, besides its configuration; and the event log, which others may have too. */
const LEFT = /^(running\.pid|(rollcall\.(db|token)|audiences\.duckdb)(\W.*)?)$/;
const EVENTS = 'events';

/** Takes a folder for this process and removes what an earlier shop left there. Nobody else's files are touched. */
export function claimFolder(folder: string): Claim {
  try {
    return claim(folder);
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error)) throw error;
    return { ok: false, problem: `Nothing can be written there: ${error.message}.` };
  }
}

function claim(folder: string): Claim {
  const file = join(folder, PID);
  const pid = readPid(file);
  if (pid !== null && pid !== process.pid && isAlive(pid)) {
    return { ok: false, problem: `The shop is running already (process ${pid}) in ${folder}. Stop it first.` };
  }
  const names = existsSync(folder) ? readdirSync(folder) : [];
  const config = join(folder, CONFIG);
  const isKnown = existsSync(config) && isOurs(config);
  const foreign = names.find((name) => !LEFT.test(name) && !(isKnown && (name === CONFIG || name === EVENTS)));
  if (foreign !== undefined) {
    return {
      ok: false,
      problem: `${folder} has files that are not the shop's, such as ${foreign}. Nothing was touched.`,
    };
  }
  for (const name of names) rmSync(join(folder, name), { recursive: true });
  mkdirSync(folder, { recursive: true });
  writeFileSync(file, String(process.pid));
  return { ok: true, release: () => rmSync(file, { force: true }) };
}

const isOurs = (path: string) => readFileSync(path, 'utf8').startsWith(TITLE);

function readPid(file: string): number | null {
  try {
    return Number.parseInt(readFileSync(file, 'utf8'), 10) || null;
  } catch {
    return null;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
