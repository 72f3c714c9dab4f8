import { kinds } from '../bodies.ts';
import type { Handlers } from '../options.ts';

const handlers = [...kinds, 'around', 'any', 'unhandled', 'invalid', 'error'];
const groups = { audience: ['entered', 'exited'], trait: ['changed', 'gone'] } as const;

/**
 * Finds handlers that would never be called: their messages would be answered 200 and lost. TypeScript finds most.
 *
 * @throws TypeError naming the handler
 */
export function checkHandlers(on: Handlers): void {
  checkNames('on', on, handlers, Object.keys(groups));
  for (const [group, names] of Object.entries(groups)) {
    const given = on[group as keyof typeof groups];
    if (given === undefined) continue;
    checkObject(`on.${group}`, given);
    for (const [key, each] of Object.entries(given)) {
      if (each !== undefined) checkNames(`on.${group}.${key}`, each, names);
    }
  }
}

/** @param others - known names that are not handlers */
function checkNames(where: string, given: object, known: readonly string[], others: readonly string[] = []): void {
  checkObject(where, given);
  // A class may have other fields.
  const isLiteral = Object.getPrototypeOf(given) === Object.prototype;
  for (const [name, handler] of Object.entries(given)) {
    if (known.includes(name)) {
      if (handler !== undefined && typeof handler !== 'function') throw new TypeError(`${where}.${name} is a function`);
    } else if (isLiteral && !others.includes(name)) {
      throw new TypeError(`${where}.${name} would never be called: give ${[...known, ...others].join(', ')}`);
    }
  }
}

function checkObject(where: string, given: unknown): void {
  if (typeof given !== 'object' || given === null) throw new TypeError(`${where} is an object with handlers`);
}
