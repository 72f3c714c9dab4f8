import { RollcallError } from '../../src/kernel/errors.ts';
import type { AudienceRecord, Records } from '../../src/store/port.ts';
import type { Action } from '../engines/port.ts';
import type { RunContext } from './run-context.ts';

type VersionParts = Pick<RunContext, 'subject' | 'config'>;

/** The highest known version of an audience, including its former lives. */
export async function lastVersion(store: Pick<Records, 'runs'>, { key, version }: AudienceRecord): Promise<number> {
  if (version > 0) return version;
  const [newest] = await store.runs({ key, limit: 1 });
  return newest?.toVersion ?? 0;
}

/**
 * The version that the snapshot will get.
 *
 * @param lastVersion - the highest that is known from runs of this audience
 * @throws RollcallError `snapshot_lost`, `snapshot_moved`, `engine_changed`
 */
export async function nextVersion(
  context: VersionParts & Pick<RunContext, 'engine' | 'log'>,
  action: Action,
  record: AudienceRecord,
  lastVersion: number,
): Promise<number> {
  const { engine, log } = context;
  const { key, version } = record;
  const snapshot = await engine.snapshot(key);
  // Also for an audience that starts again: the history of its former lives names versions.
  const next = Math.max(snapshot.version, version, lastVersion) + 1;
  // An engine that was only renamed still has it.
  if (snapshot.version === version) return next;
  if (action === 'retire' && snapshot.version === 0) {
    log.warn({ key }, 'The snapshot is gone: the audience is forgotten, and its members are not notified');
    return next;
  }
  if (hasMoved(context, record) && (action !== 'resync' || canReach(context, record))) throw missing(context, record);
  if (action === 'resync') {
    log.warn({ key }, 'The last snapshot is missing: users who left since then are not notified');
    return next;
  }
  if (snapshot.version < version) throw missing(context, record);
  throw moved(record, snapshot.version);
}

/** The error for an engine that is ahead of the store. */
export function moved({ key, version }: AudienceRecord, found: number): RollcallError {
  return new RollcallError(
    'snapshot_moved',
    `${key}: the engine's snapshot (version ${found}) is ahead of the store (version ${version}): this store is an older copy, or was begun later. Use the right one, or run \`rollcall resync ${key}\` to send the whole membership again.`,
  );
}

/** The error for an engine that lacks what was last synced. */
export function missing(context: VersionParts, record: AudienceRecord): RollcallError {
  const { key, engine } = record;
  if (!hasMoved(context, record)) {
    return new RollcallError(
      'snapshot_lost',
      `${key}: the engine no longer has what was last synced. Bring its database back, or run \`rollcall resync ${key}\` to send the whole membership again.`,
    );
  }
  const way = canReach(context, record)
    ? `run \`rollcall retire ${key}\`, which tells all members there that they left, and the next sync begins anew`
    : `run \`rollcall resync ${key}\`, which tells the members of now and can't tell who left since`;
  return new RollcallError(
    'engine_changed',
    `${key}: its snapshot is in the engine ${engine}, the configuration says ${context.subject.engine}. Set \`engine: ${engine}\` again, or ${way}.`,
  );
}

function hasMoved({ subject }: VersionParts, { engine, version }: AudienceRecord): boolean {
  return version > 0 && engine !== subject.engine;
}

/** True if the engine of the snapshot is still configured. */
function canReach({ config }: VersionParts, { engine }: AudienceRecord): boolean {
  return Object.hasOwn(config().engines, engine);
}
