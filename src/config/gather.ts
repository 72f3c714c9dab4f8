import { basename, dirname, join, resolve } from 'node:path';
import * as z from 'zod';
import { type ParsedFile, parseFile } from './document.ts';
import { isSameFile, matching, readNamed, unreadable } from './files.ts';
import {
  explain,
  type FilePlace,
  fromIssue,
  type Mistake,
  type Path,
  placeIn,
  type ShownMistake,
  showPath,
  showPlace,
} from './mistakes.ts';
import { fileSchema, includePattern } from './schema.ts';
import { section } from './section.ts';
import { type Environment, fillVariables } from './variables.ts';

interface SourceFile extends ParsedFile {
  /** An absolute path. */
  readonly at: string;
}

/** A part of a file, by its path there. */
interface Origin {
  readonly file: SourceFile;
  readonly path: Path;
}

/** A configuration file with those that it includes, as one content. */
export interface Gathered {
  readonly content: unknown;
  /** Absolute paths of the files, the main one first. */
  readonly files: readonly string[];
  /** Their names in mistakes. */
  readonly names: readonly string[];
  readonly mistakes: readonly ShownMistake[];
  /** The file that a part of the content comes from, and its path there. */
  originOf(path: Path): Origin;
}

interface GatherOptions {
  /** The file's name in mistakes. */
  readonly file: string;
  /** Absolute folder of the file. */
  readonly folder: string;
  /** Variables of `include`. */
  readonly env: Environment;
}

/** Parses a file and those that it includes. Returns the mistakes if one of them can't be read or parsed. */
export function gather(text: string, { file, folder, env }: GatherOptions): Gathered | readonly ShownMistake[] {
  const parsed = parseFile(text, file);
  if (!('document' in parsed)) return parsed;
  const main = { ...parsed, at: join(folder, basename(file)) };
  const { paths, mistakes } = includedPaths(main, env);
  const read = paths.map((path) => readIncluded(path, main));
  const faults = [...mistakes, ...read.flatMap((each) => ('document' in each ? [] : each))];
  if (faults.length > 0) return faults;
  return merged(
    main,
    read.filter((each) => 'document' in each),
  );
}

const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The files that the patterns match, each once. */
function includedPaths(main: SourceFile, env: Environment) {
  const paths = new Set<string>();
  const missing: Mistake[] = [];
  const given = isMap(main.content) ? main.content['include'] : undefined;
  const include = fillVariables(given, env, { missing, inSql: new Map() }, ['include']);
  const mistakes = missing.map(({ path, message }) => shownIn({ file: main, path }, message));
  for (const [index, pattern] of (Array.isArray(include) ? include : []).entries()) {
    const refuse = (message: string) => mistakes.push(shownIn({ file: main, path: ['include', index] }, message));
    // The schema reports what is no pattern.
    if (missing.length > 0 || !includePattern.safeParse(pattern).success) continue;
    try {
      const folder = dirname(main.at);
      const found = matching(pattern, folder);
      const others = found.filter((path) => !isSameFile(resolve(folder, path), main.at));
      if (found.length === 0) refuse(`matches no file: ${pattern}`);
      if (others.length < found.length) refuse('matches this file itself. Put the others into a folder of their own');
      for (const path of others) paths.add(path);
    } catch (error) {
      refuse((error as Error).message);
    }
  }
  return { paths: [...paths], mistakes };
}

function readIncluded(path: string, main: SourceFile): SourceFile | readonly ShownMistake[] {
  const file = path.startsWith('/') ? path : join(dirname(main.file), path);
  const at = resolve(dirname(main.at), path);
  let text: string;
  try {
    text = readNamed(at);
  } catch (error) {
    return [{ path: '', file, line: null, column: null, message: unreadable(error) }];
  }
  const parsed = parseFile(text, file);
  if (!('document' in parsed)) return parsed;
  const source = { ...parsed, at };
  const { error } = includedShape.safeParse(parsed.content, { error: explain });
  const mistakes = error?.issues.flatMap((issue) => fromIssue(issue)) ?? [];
  if (mistakes.length === 0) return source;
  return mistakes
    .map(({ path, message }) => shownIn({ file: source, path }, message))
    .toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0));
}

const LISTS = ['sources', 'destinations', 'audiences', 'traits'] as const;
const items = z.array(z.unknown()).optional();

/** The parts of an included file. Once all files are one, their content is checked. */
const includedShape = section(
  {
    sources: items,
    destinations: items,
    audiences: items,
    traits: items,
    engines: z.record(z.string(), z.unknown()).optional(),
  },
  (key) => {
    if (key === 'include') return 'cannot stand in an included file: list all files in the main one';
    return Object.hasOwn(fileSchema.shape, key) ? 'belongs in the main file, which includes this one' : undefined;
  },
);
type IncludedContent = z.output<typeof includedShape>;

/** Appends the lists and engines of included files to those of the main one. */
function merged(main: SourceFile, included: readonly SourceFile[]): Gathered {
  const all = [main, ...included];
  const content: Record<string, unknown> = { ...(main.content as object) };
  const places = new Map<string, readonly Origin[]>();
  for (const name of included.length > 0 ? LISTS : []) {
    // The schema reports a list of the main file that is none.
    if (content[name] !== undefined && !Array.isArray(content[name])) continue;
    const parts = all.flatMap((file) =>
      ((file.content as IncludedContent)[name] ?? []).map((item, index) => ({ item, file, path: [name, index] })),
    );
    if (parts.length > 0) content[name] = parts.map(({ item }) => item);
    places.set(name, parts);
  }
  const { engines, mistakes } = mergedEngines(all);
  if (engines.size > 0)
    content['engines'] = Object.fromEntries([...engines].map(([name, { engine }]) => [name, engine]));
  return {
    content: isMap(main.content) ? content : main.content,
    files: all.map(({ at }) => at),
    names: all.map(({ file }) => file),
    mistakes,
    originOf(path) {
      const [name, index, ...rest] = path;
      const list = typeof index === 'number' ? places.get(String(name))?.[index] : undefined;
      if (list) return { file: list.file, path: [...list.path, ...rest] };
      return { file: (name === 'engines' && engines.get(String(index))?.file) || main, path };
    },
  };
}

function mergedEngines(all: readonly SourceFile[]) {
  const engines = new Map<string, { readonly engine: unknown; readonly file: SourceFile }>();
  const mistakes: ShownMistake[] = [];
  for (const file of all) {
    const own = isMap(file.content) ? file.content['engines'] : undefined;
    for (const [name, engine] of Object.entries(isMap(own) ? own : {})) {
      const path = ['engines', name];
      const first = engines.get(name);
      if (first)
        mistakes.push(
          shownIn({ file, path }, `is an engine of ${showPlace(placeOf({ file: first.file, path }))} already`),
        );
      else engines.set(name, { engine, file });
    }
  }
  return { engines, mistakes };
}

export const placeOf = ({ file, path }: Origin): FilePlace => ({
  file: file.file,
  ...placeIn(file.document, file.lines, path),
});

/** A part as a mistake about another part names it. */
export const describe = (origin: Origin): string => `${showPath(origin.path)} (${showPlace(placeOf(origin))})`;

export function shownIn(origin: Origin, message: string): ShownMistake {
  return { path: showPath(origin.path), ...placeOf(origin), message };
}
