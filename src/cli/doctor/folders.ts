import { constants, existsSync } from 'node:fs';
import { access, stat, statfs } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { dirname } from 'node:path';
import type { Config } from '../../config/config.ts';
import { linked } from '../../store/sqlite/files.ts';
import { type Finding, failed, ok, warning } from './finding.ts';

const GIGABYTE = 2 ** 30;
/** Free bytes below which a disk is nearly full, and as good as full. */
const LITTLE = GIGABYTE;
const NOTHING = GIGABYTE / 10;

export async function* examineFolders(config: Config): AsyncGenerator<Finding> {
  const uses = new Map<string, string[]>();
  const use = (what: string, folder: string) => uses.set(folder, [...(uses.get(folder) ?? []), what]);
  for (const [what, path] of filesOf(config)) {
    use(what, dirname(path));
    yield* examineFile(what, path);
    yield* examineRights(what, path, config);
  }
  // With a Postgres store the log is a table.
  if (config.eventLog && config.store.url.startsWith('sqlite:')) {
    use(config.eventLog.bucket ? 'the cache of the event log' : 'the event log', madeIn(config.eventLog.path));
    yield* examineRights('event log', config.eventLog.path, config);
  }
  for (const [folder, users] of uses) {
    const need = `${users.join(' and ')} ${users.length === 1 ? 'needs' : 'need'} it`;
    yield* examineFolder(folder, need);
  }
}

function* filesOf({ store, engines }: Config): Generator<readonly [string, string]> {
  const path = store.url.startsWith('sqlite:') ? store.url.slice('sqlite:'.length) : ':memory:';
  if (path !== ':memory:') yield ['store', linked(path)];
  for (const [name, engine] of Object.entries(engines)) {
    if (engine.type === 'duckdb' && engine.path !== ':memory:') yield [`engine ${name}`, engine.path];
  }
}

/** The nearest existing parent of a folder that is created with its first file. */
function madeIn(folder: string): string {
  return existsSync(folder) || dirname(folder) === folder ? folder : madeIn(dirname(folder));
}

async function* examineFile(what: string, path: string): AsyncGenerator<Finding> {
  const isThere = await stat(path).then(
    () => true,
    () => false,
  );
  if (isThere && !(await may(path, constants.R_OK | constants.W_OK))) {
    yield failed(what, `${path} can't be read and written by ${user()}. Give that user the rights to it`);
  }
}

/** Rollcall makes its files for their owner alone. Older ones, and copies, may be open to others. */
async function* examineRights(what: string, path: string, { files }: Config): AsyncGenerator<Finding> {
  const mode = (await stat(path).catch(() => null))?.mode ?? 0;
  const [others, rights] = files.group ? [0o007, 'o='] : [0o077, 'go='];
  if ((mode & others) === 0) return;
  yield warning(what, `${path} can be read by other users of this machine. Shut them out: chmod -R ${rights} ${path}*`);
}

async function* examineFolder(folder: string, need: string): AsyncGenerator<Finding> {
  const check = `folder ${folder}`;
  const found = await stat(folder).catch(() => null);
  if (found && !found.isDirectory()) {
    yield failed(check, `is a file, and ${need}. Move it away, or name another folder`);
    return;
  }
  if (!found) {
    yield failed(check, `does not exist, and ${need}. Make it: mkdir -p ${folder}`);
    return;
  }
  if (!(await may(folder, constants.W_OK | constants.X_OK))) {
    yield failed(check, `can't be written by ${user()}, and ${need}. Give that user the rights to it`);
    return;
  }
  const { bavail, bsize, blocks } = await statfs(folder);
  const free = bavail * bsize;
  const left = `${(free / GIGABYTE).toFixed(1)} GB free of ${((blocks * bsize) / GIGABYTE).toFixed(1)} GB`;
  if (free < NOTHING) yield failed(check, `${left}: make room, or what is collected is refused`);
  else if (free < LITTLE) yield warning(check, `${left}: make room before it is full`);
  else yield ok(check, `can be written, ${left}`);
}

async function may(path: string, mode: number): Promise<boolean> {
  return access(path, mode).then(
    () => true,
    () => false,
  );
}

function user(): string {
  try {
    return userInfo().username;
  } catch {
    // A container may run as a user without a name.
    return 'this user';
  }
}
