import type { Given } from './configured.ts';
import { type LoggedEvent, NOW } from './event.ts';

/** A moment of a scenario: what the log holds by then, and who is a member. */
export interface Step {
  readonly events: readonly LoggedEvent[];
  readonly now: number;
  readonly definition: Given;
  /** Members in order, or the values of a trait by user. */
  readonly result: readonly string[] | Readonly<Record<string, unknown>>;
}

export interface Scenario {
  readonly name: string;
  readonly steps: readonly Step[];
  /** Other audiences, by key. */
  readonly others: Readonly<Record<string, Given>>;
}

export function members(
  name: string,
  when: unknown,
  events: readonly LoggedEvent[],
  result: readonly string[],
  others: Scenario['others'] = {},
): Scenario {
  return { name, steps: [{ events, now: NOW, definition: { when }, result }], others };
}

export function values(
  name: string,
  value: unknown,
  events: readonly LoggedEvent[],
  result: Readonly<Record<string, unknown>>,
): Scenario {
  return { name, steps: [{ events, now: NOW, definition: { value }, result }], others: {} };
}

/** Several moments, each from what stands at the one before. */
export function story(name: string, first: Step, ...rest: readonly Partial<Step>[]): Scenario {
  const steps = [first];
  for (const changes of rest) steps.push({ ...(steps.at(-1) as Step), ...changes });
  return { name, steps, others: {} };
}
