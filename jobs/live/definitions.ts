import { hash } from 'node:crypto';
import type { Condition } from '../../src/definition/conditions.ts';
import { type Computation, computations, type SyncConfig, withLiveTraits } from '../audience-or-trait.ts';
import { inlined, type LiveDefinition } from './facts.ts';

/** Name of the engine that has the membership of live audiences. It is reserved. */
export const LIVE_ENGINE = '(live)';

/** The prefix of message ids for one version of a live audience. Those of a run begin with the run's id. */
export const liveRun = (key: string, version: number): string => `live-${key}-${version.toString(36)}`;

export interface LiveComputation {
  readonly computation: Computation;
  readonly definition: LiveDefinition;
  /** Changes whenever the definition's meaning does, including that of audiences it refers to. */
  readonly hash: string;
}

/** The live computations that send as this source. */
export function liveComputations(config: SyncConfig, source: string): readonly LiveComputation[] {
  return computations(config)
    .filter((computation) => computation.live && computation.source === source)
    .map((computation) => {
      const definition = definitionOf(computation, config);
      return { computation, definition, hash: hash('sha256', JSON.stringify(definition), 'hex').slice(0, 16) };
    });
}

/** True if a change is sent for members who get another value or other columns. */
export const sendsValues = (computation: Computation): boolean =>
  computation.kind === 'trait' || computation.sendsColumns === true;

export function liveSources(config: SyncConfig): readonly string[] {
  return [...new Set(computations(config).flatMap(({ live, source }) => (live ? source : [])))];
}

/** The hash of a live definition; null for others. */
export function liveHash(key: string, config: SyncConfig): string | null {
  const { source } = computations(config).find((each) => each.key === key && each.live) ?? {};
  if (source === undefined) return null;
  return liveComputations(config, source).find(({ computation }) => computation.key === key)?.hash ?? null;
}

function definitionOf(computation: Computation, config: SyncConfig): LiveDefinition {
  const { key, allowPlaceholders } = computation;
  const allows = allowPlaceholders ? { allowPlaceholders } : {};
  if (computation.kind === 'trait') {
    if (!computation.value) throw new Error(`${key} is live and has no short definition.`);
    return { key, kind: 'trait', ...allows, value: computation.value };
  }
  const columns = Object.entries(computation.with ?? {}).map(
    ([column, { trait = column }]) => [column, trait] as const,
  );
  return {
    ...{ key, kind: 'audience', ...allows },
    when: inlined({ inAudience: key }, (other) => whenOf(other, config)),
    ...(columns.length > 0 && { columns: Object.fromEntries(columns) }),
  };
}

/** Null for an audience computed by SQL. */
function whenOf(key: string, config: SyncConfig): Condition | null {
  const when = config.audiences.find((audience) => audience.key === key)?.when;
  return when ? withLiveTraits(when, config) : null;
}
