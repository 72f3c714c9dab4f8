import * as z from 'zod';
import { suggestion } from '../kernel/spelling.ts';
import type { Mistake, Path } from './mistakes.ts';

/** The parts of an audience or computed trait that these rules need. */
export interface OutlinedComputation {
  readonly section: 'audiences' | 'traits';
  readonly path: Path;
  readonly key: string;
  readonly engine: string;
  readonly when: unknown;
}

const conditionOutline = z.object({
  all: z.array(z.unknown()).optional().catch(undefined),
  any: z.array(z.unknown()).optional().catch(undefined),
  not: z.unknown().optional(),
  inAudience: z.string().optional().catch(undefined),
});

interface Reference {
  readonly path: Path;
  readonly key: string;
}

/** Audiences that a condition refers to, each with its place. Skips malformed parts. */
function* referencesIn(condition: unknown, path: Path): Iterable<Reference> {
  const read = conditionOutline.safeParse(condition);
  if (!read.success) return;
  const { all, any, not, inAudience } = read.data;
  if (inAudience) yield { path: [...path, 'inAudience'], key: inAudience };
  for (const [name, list] of [['all', all] as const, ['any', any] as const]) {
    for (const [index, part] of (list ?? []).entries()) yield* referencesIn(part, [...path, name, index]);
  }
  yield* referencesIn(not, [...path, 'not']);
}

/** Mistakes in `inAudience`: audiences that do not exist, audiences of another engine, and circles. */
export function checkInAudience(computations: readonly OutlinedComputation[]): readonly Mistake[] {
  const audiences = computations.filter(({ section }) => section === 'audiences');
  const byKey = new Map(audiences.map((audience) => [audience.key, audience]));
  const named = new Map(audiences.map(({ key, when, path }) => [key, [...referencesIn(when, [...path, 'when'])]]));
  return audiences.flatMap((audience) =>
    (named.get(audience.key) ?? []).flatMap(({ path, key }) => {
      const fault =
        missing(key, computations) ?? otherEngine(audience, byKey.get(key)) ?? circle(audience.key, key, named);
      return fault === null ? [] : [{ path, message: fault }];
    }),
  );
}

function missing(key: string, computations: readonly OutlinedComputation[]): string | null {
  const keys = computations.filter(({ section }) => section === 'audiences').map((audience) => audience.key);
  if (keys.includes(key)) return null;
  const isTrait = computations.some((computation) => computation.key === key);
  if (isTrait) return `names ${key}, which is a computed trait. Only audiences have members`;
  return `names the audience "${key}", which there is not${suggestion(key, keys)}`;
}

function otherEngine(audience: OutlinedComputation, other: OutlinedComputation | undefined): string | null {
  if (other === undefined || other.engine === audience.engine) return null;
  return `names ${other.key}, which is computed by the engine ${other.engine}, and ${audience.key} by ${audience.engine}. Give both the same engine`;
}

/** Finds a circle back to the start. */
function circle(start: string, next: string, named: ReadonlyMap<string, readonly Reference[]>): string | null {
  const seen = new Set<string>();
  const wayBack = (key: string, way: readonly string[]): readonly string[] | null => {
    if (key === start) return way;
    if (seen.has(key)) return null;
    seen.add(key);
    for (const reference of named.get(key) ?? []) {
      const found = wayBack(reference.key, [...way, reference.key]);
      if (found) return found;
    }
    return null;
  };
  const way = wayBack(next, [start, next]);
  return way && `makes a circle: ${way.join(' → ')}. An audience can't be defined by itself`;
}
