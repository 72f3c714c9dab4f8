import type { EngineConfig } from '../src/config/config.ts';
import { RollcallError } from '../src/kernel/errors.ts';
import type { Store } from '../src/store/port.ts';
import type { Engine } from './engines/port.ts';

type OwnerStore = Pick<Store, 'id' | 'audience' | 'audiences' | 'runs'>;

/**
 * Refuses an engine whose snapshots belong to another store. Snapshots of nobody become this store's at the first
 * writing use, if their versions are those that it knows.
 *
 * @throws RollcallError `snapshot_foreign`
 */
export async function refuseForeign(
  store: OwnerStore,
  { ownership }: Engine,
  { name, type, readOnly }: { readonly name: string; readonly type: EngineConfig['type']; readonly readOnly: boolean },
): Promise<void> {
  if (!ownership) return;
  let owner = await ownership.store();
  if (owner === store.id) return;
  if (owner === null) {
    const stranger = await strangerIn(await ownership.versions(), store);
    if (stranger !== null) throw foreign(name, type, store, `of another store (${stranger})`);
    if (readOnly) return;
    await ownership.give(store.id, null);
    owner = await ownership.store();
  }
  if (owner !== store.id) throw foreign(name, type, store, `of the store ${owner}`);
}

/** Returns a snapshot with another version than the store knows; null if there is none. */
async function strangerIn(versions: ReadonlyMap<string, number>, store: OwnerStore): Promise<string | null> {
  if (versions.size === 0) return null;
  const known = new Map((await store.audiences()).map(({ key, version }) => [key, version]));
  for (const [key, version] of versions) {
    if (known.get(key) === version || (await isKnown(store, key, (each) => each === version))) continue;
    return `${key} has the version ${version}, this store knows ${known.get(key) ?? 'none'}`;
  }
  return null;
}

/** True if the store has such a version, or a run that moves the snapshot to one and may have been cut off. */
export async function isKnown(
  store: Pick<Store, 'audience' | 'runs'>,
  key: string,
  isIt: (version: number) => boolean,
): Promise<boolean> {
  // In this order: a run that ends in the meantime is in the record.
  const runs = await store.runs({ key, states: ['sending', 'committed'], limit: 10 });
  return runs.some(({ toVersion }) => isIt(toVersion)) || isIt((await store.audience(key))?.version ?? 0);
}

/** The setting that gives a store a place of its own. */
const PLACES: Readonly<Partial<Record<EngineConfig['type'], string>>> = {
  duckdb: '`schema: NAME` or another `path`',
  postgres: '`schema: NAME`',
  clickhouse: '`database: NAME`',
  module: 'other `options`',
};

function foreign(name: string, type: EngineConfig['type'], { id }: OwnerStore, whose: string): RollcallError {
  return new RollcallError(
    'snapshot_foreign',
    `The engine ${name} has the snapshots ${whose}; this store is ${id}. If both are in use, give this one its own place: ${PLACES[type] ?? 'other `snapshots`'} in \`engines.${name}\`. If the other has ended, run \`rollcall engines adopt ${name}\`.`,
  );
}
