import type { AudienceConfig, Config, TraitConfig } from '../src/config/config.ts';
import type { Destination } from '../src/destination.ts';

export type Computation = AudienceConfig | TraitConfig;

export type SyncConfig = Pick<Config, 'folder' | 'engines' | 'audiences' | 'traits' | 'destinations'> &
  Partial<Pick<Config, 'changedAt' | 'recordRetention' | 'eventLog' | 'store' | 'hiddenValues'>>;

export function computations(config: SyncConfig): readonly Computation[] {
  return [...config.audiences, ...config.traits];
}

/** The key of an audience or trait, and the source that its messages are sent as. */
type Speaker = Pick<Computation, 'key' | 'source'>;

export function connectedTo({ key, source }: Speaker, destinations: readonly Destination[]): readonly string[] {
  return reachedBy(source, destinations)
    .filter((destination) => wants(destination, key))
    .map(({ name }) => name);
}

/** Destinations that take identifies of this source, ignoring audience filters, as the end of an audience does. */
export function reachedBy(source: string, destinations: readonly Destination[]): readonly Destination[] {
  return destinations.filter(
    ({ enabled, sources, wants }) =>
      enabled && sources.includes(source) && (wants?.types?.includes('identify') ?? true),
  );
}

export function wants(destination: Destination, key: string): boolean {
  return destination.wants?.audiences?.includes(key) ?? true;
}

/** The conflict key of a message about `user`, unique per audience and user. Keys never contain `|`. */
export function conflictKey(key: string, user: string): string {
  return `${key}|${user}`;
}

export function parseConflictKey(conflict: string): { readonly key: string; readonly user: string } | null {
  const end = conflict.indexOf('|');
  return end < 0 ? null : { key: conflict.slice(0, end), user: conflict.slice(end + 1) };
}
