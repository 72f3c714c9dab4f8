import type { AudienceConfig, Config, TraitConfig } from '../src/config/config.ts';
import { type Condition, replaced } from '../src/definition/conditions.ts';
import type { Destination, MembershipForm } from '../src/destination.ts';

export type Computation = AudienceConfig | TraitConfig;

export type SyncConfig = Pick<Config, 'folder' | 'engines' | 'audiences' | 'traits' | 'destinations'> &
  Partial<
    Pick<
      Config,
      'changedAt' | 'recordRetention' | 'eventLog' | 'store' | 'hiddenValues' | 'admin' | 'sourceFiles' | 'written'
    >
  >;

export function computations(config: SyncConfig): readonly Computation[] {
  return [...config.audiences, ...config.traits];
}

/** A condition with the definitions of live traits, whose values are those of the same instant. */
export function withLiveTraits(condition: Condition, { traits }: Pick<SyncConfig, 'traits'>): Condition {
  return replaced(condition, (single) => {
    if (!('computed' in single)) return single;
    const { live, value, allowPlaceholders } = traits.find(({ key }) => key === single.computed.key) ?? {};
    if (!live || !value) return single;
    const computed = { ...single.computed, live: { value, allowPlaceholders: allowPlaceholders ?? false } };
    return { ...single, computed };
  });
}

/** The key of an audience or trait, and the source that its messages are sent as. */
type Speaker = Pick<Computation, 'key' | 'source'>;

export function connectedTo({ key, source }: Speaker, destinations: readonly Destination[]): readonly string[] {
  return reachedBy(source, destinations)
    .filter((destination) => wants(destination, key))
    .map(({ name }) => name);
}

/** Destinations that take changes of this source, ignoring audience filters, as the end of an audience does. */
export function reachedBy(source: string, destinations: readonly Destination[]): readonly Destination[] {
  return destinations.filter(
    ({ enabled, sources, wants, membership }) =>
      enabled &&
      sources.includes(source) &&
      ((membership ?? 'identify') !== 'identify' || (wants?.types?.includes('identify') ?? true)),
  );
}

export function wants(destination: Destination, key: string): boolean {
  return destination.wants?.audiences?.includes(key) ?? true;
}

const FORM_MARKS = { identify: '=', track: '!' } as const;

/** The conflict key of a message about `user`, unique per audience, form and user. Keys never contain `|`. */
export function conflictKey(key: string, user: string, form: MembershipForm = 'identify'): string {
  return `${key}|${FORM_MARKS[form]}${user}`;
}

/** The conflict keys of messages about `user` in every form. */
export function conflictKeys(key: string, user: string): readonly string[] {
  return [conflictKey(key, user), conflictKey(key, user, 'track')];
}

/** The beginning of all conflict keys of an audience, or of those of one form. */
export function conflictPrefix(key: string, form?: MembershipForm): string {
  return form === undefined ? `${key}|` : conflictKey(key, '', form);
}

interface ConflictParts {
  readonly key: string;
  readonly form: MembershipForm;
  readonly user: string;
}

export function parseConflictKey(conflict: string): ConflictParts | null {
  const end = conflict.indexOf('|');
  if (end < 0) return null;
  const form = conflict[end + 1] === FORM_MARKS.track ? 'track' : 'identify';
  return { key: conflict.slice(0, end), form, user: conflict.slice(end + 2) };
}

/** The name that people gave to an audience or trait; its key if it is no longer configured. */
export function nameOf(key: string, config: Pick<SyncConfig, 'audiences' | 'traits'>): string {
  return [...config.audiences, ...config.traits].find((computation) => computation.key === key)?.name ?? key;
}
