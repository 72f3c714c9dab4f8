import { kinds } from './bodies.ts';
import type { Handlers } from './options.ts';

const handlers = [...kinds, 'around', 'any', 'unhandled', 'invalid', 'error'];
const groups = { audience: ['entered', 'exited'], trait: ['changed', 'gone'] } as const;

/**
 * Finds handlers that would never be called: what they were for would be answered 200, and be lost. TypeScript finds most.
 *
 * @throws TypeError naming the handler
 */
export function checkHandlers(on: Handlers): void {
  const { audience, trait, ...others } = objectAt('on', on);
  checkNames('on', others, handlers);
  for (const [group, given] of Object.entries({ audience, trait })) {
    if (given === undefined) continue;
    for (const [key, each] of Object.entries(objectAt(`on.${group}`, given))) {
      const where = `on.${group}.${key}`;
      if (each !== undefined) checkNames(where, objectAt(where, each), groups[group as keyof typeof groups]);
    }
  }
}

function objectAt(where: string, given: unknown): Record<string, unknown> {
  if (typeof given !== 'object' || given === null) throw new TypeError(`${where} is an object with handlers`);
  return given as Record<string, unknown>;
}

function checkNames(where: string, given: Record<string, unknown>, known: readonly string[]): void {
  for (const [name, handler] of Object.entries(given)) {
    if (!known.includes(name)) throw new TypeError(`${where}.${name} would never be called: give ${known.join(', ')}`);
    if (handler !== undefined && typeof handler !== 'function') throw new TypeError(`${where}.${name} is a function`);
  }
}
