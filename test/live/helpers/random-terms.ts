import fc from 'fast-check';
import type { Condition } from '../../../src/definition/conditions.ts';
import type { TraitValue } from '../../../src/definition/definition.ts';
import type { Failpoint } from '../../../src/kernel/failpoint.ts';
import { conditions, histories, shortAudience, valueDefinitions } from '../../definitions/helpers/arbitrary.ts';
import { type LoggedEvent, NOW } from '../../definitions/helpers/event.ts';

/** The arguments that the parent gives a life on its command line. */
export interface Orders {
  readonly folder: string;
  readonly url: string;
  /** Says which definitions it has. */
  readonly generation: number;
  readonly seed: number;
  /** When the first life began. */
  readonly origin: number;
  /** The time by its clock, which moves only when it is told so. */
  readonly now: number;
  /** Days that the log keeps. */
  readonly keep: number;
  readonly crash: Crash | null;
}

export interface Crash {
  readonly failpoint: Failpoint;
  readonly passes: number;
}

/** Orders to a life. It answers each. */
export type Asked =
  | { readonly now: number }
  | { readonly arm: Crash }
  | { readonly settle: true }
  /** Computes and commits the trait that conditions name. */
  | { readonly sync: true }
  /** Deletes a user. */
  | { readonly delete: string }
  | { readonly compare: true };

export type Answer =
  | { readonly listening: string }
  | { readonly done: true }
  | {
      /** Users of whom the log knows, times definitions. */
      readonly compared: number;
      /** Members and values among them. */
      readonly found: number;
      readonly differences: readonly string[];
    };

const WHENS = 16;
const VALUES = 8;

interface Definitions {
  readonly whens: readonly Condition[];
  readonly values: readonly TraitValue[];
  /** Audiences that conditions name. */
  readonly short: Condition;
}

/** Half of them change with each generation, the others with every second one. */
export function definitionsOf(seed: number, generation: number): Definitions {
  const mixed = <T>(arbitrary: fc.Arbitrary<T>, count: number): T[] => {
    const [some, others] = [generation, Math.floor(generation / 2) + 1_000].map((each) =>
      fc.sample(arbitrary, { seed: seed + each, numRuns: count }),
    );
    return Array.from({ length: count }, (_, index) => (index % 2 === 0 ? some : others)?.[index] as T);
  };
  const [short] = fc.sample(shortAudience, { seed: seed + generation, numRuns: 1 });
  return { whens: mixed(conditions, WHENS), values: mixed(valueDefinitions, VALUES), short: short as Condition };
}

/** Histories of so many groups of a few people each; times are from now. */
export function eventsOf(seed: number, groups: number): readonly LoggedEvent[] {
  const found = fc.sample(histories, { seed, numRuns: groups });
  const longest = Math.max(...found.map(({ length }) => length));
  // The first of each, then the second: people do things side by side.
  return Array.from({ length: longest }, (_, place) =>
    found.flatMap((history, group) => {
      const event = history[place];
      return event ? [ofGroup(event, `g${group}-`, `${seed}-${group}-`)] : [];
    }),
  ).flat();
}

function ofGroup(event: LoggedEvent, people: string, message: string): LoggedEvent {
  const of = (id: string | null) => (id === null ? null : people + id);
  const { userId, anonymousId, previousId, timestamp } = event;
  return {
    ...event,
    ...{ userId: of(userId), anonymousId: of(anonymousId), previousId: of(previousId) },
    messageId: message + event.messageId,
    timestamp: timestamp - NOW,
  };
}

/** As a client sends it. */
export function payloadOf({ timestamp, receivedAt: _, ...event }: LoggedEvent, now: number): object {
  const names = event.type === 'track' ? {} : { name: event.event ?? 'Home', event: null };
  const given = Object.entries({ ...event, ...names, groupId: 'g', version: undefined });
  return Object.fromEntries([
    ...given.filter(([, value]) => value !== null && value !== undefined),
    ['timestamp', new Date(now + timestamp).toISOString()],
  ]);
}
