import { existsSync } from 'node:fs';
import type { Config, EngineConfig } from '../config/config.ts';
import { systemClock } from '../kernel/clock.ts';
import { RollcallError } from '../kernel/errors.ts';

/**
 * Refuse to make a store if its files show that this configuration had another one.
 *
 * @param command - the command that makes a store nevertheless
 * @throws RollcallError `store_missing`
 */
export async function refuseFormer(config: Config, command: string): Promise<void> {
  const trace = (await traceInLog(config)) ?? (await traceInEngines(config));
  if (trace === null) return;
  throw new RollcallError(
    'store_missing',
    `There is no store yet, but ${trace}, so that one was in use. Put it back, or correct \`store\`. To begin with an empty store: ${command} --new-store; if the snapshots are another project's, set \`schema\` on the engine.`,
  );
}

async function traceInLog({ eventLog }: Config): Promise<string | null> {
  if (eventLog === null) return null;
  const { filesOf } = await import('../store/events/open-files.ts');
  const files = filesOf(eventLog);
  return (await files.isUsed()) ? `the event log ${files.place} has files` : null;
}

async function traceInEngines(config: Config): Promise<string | null> {
  for (const [name, engine] of Object.entries(config.engines)) {
    const home = (of: string) => config.engines[of]?.snapshots ?? of;
    const keys = [...config.audiences, ...config.traits]
      .filter((each) => home(each.engine) === name)
      .map(({ key }) => key);
    const found = keys.length === 0 || isNoFile(engine) ? undefined : await synced(engine, keys, config);
    if (found !== undefined) return `the engine ${name} has what was last synced of ${found}`;
  }
  return null;
}

const isNoFile = (engine: EngineConfig) => engine.type === 'duckdb' && !existsSync(engine.path);

/** Return one of the keys that the engine has a snapshot of. An engine that can't be reached shows nothing. */
async function synced(engine: EngineConfig, keys: readonly string[], { folder }: Config): Promise<string | undefined> {
  const { openEngine } = await import('../../jobs/engines/open.ts');
  try {
    const reader = await openEngine(engine, { folder, clock: systemClock, readOnly: true });
    try {
      for (const key of keys) if ((await reader.snapshot(key)).version > 0) return key;
    } finally {
      await reader.close();
    }
  } catch (error) {
    if (!(error instanceof RollcallError)) throw error;
  }
  return undefined;
}
