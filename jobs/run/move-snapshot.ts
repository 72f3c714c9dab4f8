import { failpoint } from '../../src/kernel/failpoint.ts';
import type { AudienceRecord } from '../../src/store/port.ts';
import type { SyncConfig } from '../audience-or-trait.ts';
import { hasEngine } from '../open-engines.ts';
import type { RunContext, Subject } from './run-context.ts';

/**
 * The engine that the snapshot has to be moved from, since the configuration now keeps it in another (`snapshots`); null
 * if it is where it belongs, or the audience's SQL ran in another engine than now.
 */
export function movesFrom(
  { engine, reads = engine }: Subject,
  record: AudienceRecord | null,
  config: SyncConfig,
): string | null {
  if (!record || record.version === 0 || record.engine === engine || !hasEngine(record.engine, config)) return null;
  return (record.reads ?? record.engine) === reads ? record.engine : null;
}

/**
 * Moves snapshot, leavers and history to the engine of the subject. If the process dies, the next run does it again: the
 * record names the old engine until nothing is left there.
 */
export async function moveSnapshot(from: RunContext, to: RunContext, record: AudienceRecord): Promise<void> {
  const { store, subject, lease, log } = to;
  const { key, engine, reads } = subject;
  const there = await from.engine.snapshot(key);
  if (there.version !== record.version) {
    // The process died after it had removed the rest, or the snapshot is lost, which the run says.
    if ((await to.engine.snapshot(key)).version !== record.version) return;
  } else {
    const moved = await from.engine.readForMove?.(key);
    if (!moved) return;
    log.info({ event: 'snapshot_move', key, from: record.engine, to: engine }, `Moving the snapshot of ${key}`);
    await to.engine.writeMoved?.(key, moved);
    failpoint('move_written');
    await lease.check();
    await from.engine.removeMoved?.(key).catch((err) => {
      const message = `${key}: its former snapshot stays in ${record.engine}, where nothing may be written. Drop the schema rollcall there`;
      log.warn({ event: 'snapshot_left', key, err }, message);
    });
    failpoint('move_removed');
  }
  await store.moveAudience({ ...record, engine, reads }, lease.fence);
}
