import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  rmSync,
  type Stats,
  writeFileSync,
} from 'node:fs';
import { type AdminToken, type Config, RIGHTS } from '../config/config.ts';
import type { Clock } from '../kernel/clock.ts';
import { RollcallError } from '../kernel/errors.ts';

const BYTES = 32;
const SHORTEST = 32;
const LONGEST = 1_000;

/**
 * The configured tokens, or else the one in the token file; none if there is no such file.
 *
 * @throws RollcallError `bad_token_file`
 */
export function adminTokens({ admin }: Pick<Config, 'admin'>): readonly AdminToken[] {
  if (admin.tokens.length > 0) return admin.tokens;
  const token = readToken(admin.tokenFile);
  return token === null ? [] : [{ name: 'admin', token, may: RIGHTS }];
}

/**
 * As `adminTokens`, but makes the token file if it is missing.
 *
 * @throws RollcallError `bad_token_file`, or `no_admin_token` if the file can't be written
 */
export function ensureAdminTokens(config: Pick<Config, 'admin'>, clock: Pick<Clock, 'token'>): readonly AdminToken[] {
  const known = adminTokens(config);
  if (known.length > 0) return known;
  const { tokenFile } = config.admin;
  try {
    makeTokenFile(tokenFile, clock);
  } catch (error) {
    const { message } = error as Error;
    throw new RollcallError(
      'no_admin_token',
      `No admin token is set, and none can be written to ${tokenFile}: ${message}. Set admin.token, or name a place that can be written with admin.tokenFile or --token-file.`,
      { cause: error },
    );
  }
  return adminTokens(config);
}

/** Only one of several processes that start at once makes the file, and nobody reads a part of it. */
function makeTokenFile(path: string, clock: Pick<Clock, 'token'>): void {
  const draft = `${path}.${clock.token(8)}`;
  try {
    const file = openSync(draft, 'wx', 0o600);
    try {
      writeFileSync(file, clock.token(BYTES));
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    linkSync(draft, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

function readToken(path: string): string | null {
  const file = openToken(path);
  if (file === null) return null;
  try {
    const fault = faultOf(fstatSync(file));
    const token = fault === null ? readFileSync(file, 'utf8').trim() : '';
    if (fault !== null) throw refused(path, fault);
    if (token.length < SHORTEST) throw refused(path, `has fewer than ${SHORTEST} characters`);
    if (!/^[\x21-\x7e]+$/.test(token)) throw refused(path, 'is not one line of ASCII');
    return token;
  } finally {
    closeSync(file);
  }
}

function openToken(path: string): number | null {
  try {
    // A pipe would block otherwise.
    return openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return null;
    throw refused(path, code === 'ELOOP' ? 'is a symbolic link' : `can't be read: ${message}`);
  }
}

function faultOf(found: Stats): string | null {
  if (!found.isFile()) return 'is not a regular file';
  const own = process.geteuid?.();
  // Windows has neither owners nor modes that Node shows.
  if (own !== undefined && found.uid !== own) return `belongs to another user (uid ${found.uid}, not ${own})`;
  if (own !== undefined && (found.mode & 0o077) !== 0) return 'can be read by other users';
  return found.size > LONGEST ? `has more than ${LONGEST} bytes` : null;
}

function refused(path: string, fault: string): RollcallError {
  const cure = 'Run as its owner with mode 0600, remove it so that the next start makes another, or set admin.token.';
  return new RollcallError('bad_token_file', `The token file ${path} ${fault}. ${cure}`);
}
