import { createHash } from 'node:crypto';
import { RollcallError } from '../../src/kernel/errors.ts';
import type { Fence, Records } from '../../src/store/port.ts';
import { type Computation, computations, connectedTo, type SyncConfig } from '../audience-or-trait.ts';
import { definitionText } from '../definition-sql.ts';
import type { JobLog } from './run-context.ts';

/** Decides which audiences this process may run while others may have another configuration. */
export interface Generations {
  /** Makes the current configuration the newest: at the start of a process, and at each reload. */
  take(): Promise<void>;
  /**
   * Refuses an audience that a newer configuration ran last, with another definition.
   *
   * @param fence - of the lease under which it is about to run; with one, the run is recorded
   * @throws RollcallError `older_configuration`
   */
  check(key: string, fence: Fence | null): Promise<void>;
}

interface GenerationOptions {
  readonly store: Pick<Records, 'takeGeneration' | 'admit'>;
  readonly config: () => SyncConfig;
  readonly log: JobLog;
}

export function createGenerations({ store, config, log }: GenerationOptions): Generations {
  /** Hash of the configuration that was registered last. */
  let taken: string | null = null;
  const told = new Set<string>();
  // Each run asks twice, and the hashes cover each audience with each destination.
  let known: { readonly of: readonly unknown[]; readonly hashes: ConfigHashes } | null = null;

  function current(): ConfigHashes {
    const { audiences, traits, destinations, engines } = config();
    const of = [audiences, traits, destinations, engines];
    if (!of.every((part, place) => part === known?.of[place])) known = null;
    known ??= { of, hashes: hashesIn(config()) };
    return known.hashes;
  }

  async function take(): Promise<void> {
    const { hash } = current();
    await store.takeGeneration(hash);
    taken = hash;
    told.clear();
  }

  return {
    take,
    async check(key, fence) {
      const { hash, definitions } = current();
      // A one-off command registers its configuration only when it runs something.
      if (taken !== hash) await take();
      const candidate = { key, configuration: hash, definition: definitions.get(key) ?? 'gone' };
      const { admitted, generation, lastGeneration } = await store.admit(candidate, fence);
      if (admitted) return;
      const message = `${key}: a newer configuration ran it last (generation ${lastGeneration}, this process has ${generation}), with another definition. This process leaves it alone until it is restarted or reloaded.`;
      if (!told.has(key)) log.warn({ event: 'sync_older_configuration', key, code: 'older_configuration' }, message);
      told.add(key);
      throw new RollcallError('older_configuration', message);
    },
  };
}

interface ConfigHashes {
  /** Of the configuration. Covers only what syncs use: processes may differ in addresses, secrets and files. */
  readonly hash: string;
  /** By key, of everything that affects what a sync of the audience does, and when. */
  readonly definitions: ReadonlyMap<string, string>;
}

function hashesIn(config: SyncConfig): ConfigHashes {
  const definitions = new Map(computations(config).map((each) => [each.key, definitionOf(each, config)]));
  return { hash: digest([...definitions.values()].toSorted()), definitions };
}

/** Leaves out `paused`: processes that each run some of the audiences have the same configuration. */
function definitionOf(computation: Computation, config: SyncConfig): string {
  const { kind, key, engine, source, schedule, timezone, guard, expect, live } = computation;
  const connected = connectedTo({ key, source }, config.destinations).toSorted();
  const definition = definitionText(computation, config);
  return digest([
    kind,
    key,
    engine,
    source,
    definition,
    schedule,
    timezone,
    guard,
    expect,
    connected,
    ...(live ? [live] : []),
  ]);
}

const digest = (value: unknown) => createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 32);
