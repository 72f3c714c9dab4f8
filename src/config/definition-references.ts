import * as z from 'zod';
import { suggestion } from '../kernel/spelling.ts';
import type { Mistake, Path } from './mistakes.ts';

/** The parts of an audience or computed trait that these rules need. */
export interface OutlinedComputation {
  readonly section: 'audiences' | 'traits';
  readonly path: Path;
  readonly key: string;
  readonly engine: string;
  /** The engine that has its snapshots. */
  readonly home: string;
  readonly isLive: boolean;
  /** True for a trait by SQL, whose columns the file does not say. */
  readonly isOpen: boolean;
  /** The columns of an audience. */
  readonly columns: readonly string[];
  readonly when: unknown;
}

const conditionOutline = z.object({
  all: z.array(z.unknown()).optional().catch(undefined),
  any: z.array(z.unknown()).optional().catch(undefined),
  not: z.unknown().optional(),
  inAudience: z.string().optional().catch(undefined),
  computed: z.string().optional().catch(undefined),
  column: z.string().optional().catch(undefined),
});

interface Reference {
  readonly path: Path;
  readonly key: string;
  readonly by: 'inAudience' | 'computed';
  readonly column: string | undefined;
}

/** Audiences and traits that a condition refers to, each with its place. Skips malformed parts. */
function* referencesIn(condition: unknown, path: Path): Iterable<Reference> {
  const read = conditionOutline.safeParse(condition);
  if (!read.success) return;
  const { all, any, not, column } = read.data;
  for (const by of ['inAudience', 'computed'] as const) {
    const { [by]: key } = read.data;
    if (key) yield { path: [...path, by], key, by, column };
  }
  for (const [name, list] of [['all', all] as const, ['any', any] as const]) {
    for (const [index, part] of (list ?? []).entries()) yield* referencesIn(part, [...path, name, index]);
  }
  yield* referencesIn(not, [...path, 'not']);
}

/** Mistakes in `inAudience` and `computed`: names that do not exist, other engines, missing columns, and circles. */
export function checkNamed(computations: readonly OutlinedComputation[]): readonly Mistake[] {
  const audiences = computations.filter(({ section }) => section === 'audiences');
  const named = new Map(audiences.map(({ key, when, path }) => [key, [...referencesIn(when, [...path, 'when'])]]));
  return audiences.flatMap((audience) =>
    (named.get(audience.key) ?? []).flatMap((reference) => {
      const { path, key, by } = reference;
      const fault =
        (by === 'inAudience'
          ? (missing(key, computations) ?? otherEngine(audience, key, audiences))
          : wrongValue(audience, reference, computations)) ?? circle(audience.key, key, named);
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

function wrongValue(
  audience: OutlinedComputation,
  { key, column }: Reference,
  computations: readonly OutlinedComputation[],
): string | null {
  const found = computations.find((computation) => computation.key === key);
  if (found === undefined) {
    const keys = computations.map((computation) => computation.key);
    return `names the computed trait "${key}", which there is not${suggestion(key, keys)}`;
  }
  const { section, isLive, isOpen, columns, home } = found;
  if (section === 'audiences') {
    const has = columns.length > 0 ? `It has ${columns.join(', ')}` : 'Name one in its `with`';
    if (column === undefined) return `names the audience ${key}: give \`column\` too. ${has}`;
    if (isLive) return `names the live audience ${key}, whose columns are traits: use \`trait\` in its place`;
    if (!columns.includes(column)) return `needs another column: ${key} has no ${column}. ${has}`;
  } else if (!isOpen && column !== undefined && column !== key) {
    return `needs no column: ${key} has one value`;
  }
  if (isLive || home === audience.home) return null;
  return `names ${key}, whose values are kept by the engine ${home}, and ${audience.key} is computed by ${audience.engine}. Give both the same engine`;
}

function otherEngine(
  audience: OutlinedComputation,
  key: string,
  audiences: readonly OutlinedComputation[],
): string | null {
  const other = audiences.find((each) => each.key === key);
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
