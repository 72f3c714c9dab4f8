import { kinds, reasons } from '../bodies.ts';
import type { Handlers } from '../options.ts';

const handlers = [...kinds, 'around', 'any', 'unhandled', 'keptAway', 'invalid', 'error'];
const groups = { audience: ['entered', 'exited', 'changed'], trait: ['changed', 'gone'] } as const;

/** Keys that the sender accepts. */
const keyForm = /^(?!__proto__$)[\p{L}\p{N}\p{M}_-]{1,100}$/u;

/** The key that the sender makes of a name. */
const keyOf = (name: string): string =>
  (
    name
      .normalize('NFD')
      .replace(/[\p{M}'’]/gu, '')
      .match(/\p{Lu}?\p{Ll}+|\p{Lu}+(?!\p{Ll})|\p{N}+|\p{Lo}+/gu) ?? []
  )
    .join('_')
    .toLowerCase();

/**
 * Finds handlers that would never be called: their messages would be answered 200 and lost. TypeScript finds most.
 *
 * @throws TypeError naming the handler
 */
export function checkHandlers(on: Handlers): void {
  checkObject('on', on);
  const { track } = on;
  if (typeof track !== 'object' || track === null) checkNames('on', on, handlers, Object.keys(groups));
  else {
    checkNames('on', { ...on, track: undefined }, handlers, Object.keys(groups));
    checkNames('on.track', track, Object.keys(track));
  }
  for (const [group, names] of Object.entries(groups)) {
    const given = on[group as keyof typeof groups];
    if (given === undefined) continue;
    checkObject(`on.${group}`, given);
    for (const [key, each] of Object.entries(given)) {
      if (each === undefined) continue;
      if (key !== '*' && !keyForm.test(key)) {
        const name = JSON.stringify(key);
        throw new TypeError(`on.${group}[${name}] would never be called: give the key of the ${group}, ${keyOf(key)}`);
      }
      checkNames(`on.${group}.${key}`, each, names, ['only']);
      checkOnly(`on.${group}.${key}.only`, (each as { only?: unknown }).only);
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

function checkOnly(where: string, only: unknown): void {
  const isKnown = (each: unknown) => reasons.some((reason) => reason === each);
  if (only === undefined || only === 'changes' || (Array.isArray(only) && only.every(isKnown))) return;
  throw new TypeError(`${where} is 'changes', or a list of these reasons: ${reasons.join(', ')}`);
}

function checkObject(where: string, given: unknown): void {
  // The handlers in a Map or a list are not its properties.
  if (typeof given !== 'object' || given === null || Symbol.iterator in given)
    throw new TypeError(`${where} is an object with handlers`);
}
