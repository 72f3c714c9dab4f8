import { statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import pick from 'lodash/pick.js';
import uniqBy from 'lodash/uniqBy.js';
import { stringify } from 'yaml';
import type { Config, UnsetVariable, WrittenDefinition } from './config.ts';
import { checkFiles, withSqlFiles } from './file-references.ts';
import { readText, unreadable } from './files.ts';
import { describe, type Gathered, gather, placeOf, shownIn } from './gather.ts';
import { checkLogReferences } from './log-references.ts';
import {
  ConfigurationError,
  explain,
  fromIssue,
  type Mistake,
  type Path,
  type ShownMistake,
  showPath,
} from './mistakes.ts';
import { normalise } from './normalise.ts';
import { type FileOutline, keyOf, outlineOf } from './outline.ts';
import { checkReferences } from './references.ts';
import { fileSchema } from './schema.ts';
import { type Environment, fillVariables, standIn } from './variables.ts';
import { warningsOf } from './warnings.ts';

/**
 * Reads, checks and completes a configuration file, with those that it includes. Variables come from the environment, or
 * else from a file `.env` in the same folder.
 *
 * @param mayLack - true if variables may be unset; other values then stand in for them
 * @throws ConfigurationError (`bad_configuration`) with every mistake in it
 */
export function loadConfig(file: string, env: Environment = process.env, mayLack = false): Config {
  const path = resolve(file);
  const folder = dirname(path);
  const text = readUtf8(path, file);
  return parseConfig(text, { file, folder, env: { ...dotEnv(join(folder, '.env')), ...env }, mayLack });
}

/** Like `loadConfig`, where variables may be unset. */
export const loadWithoutEnv = (file: string): Config => loadConfig(file, process.env, true);

/**
 * A valid configuration as it is written: with the files that it includes and its SQL files, without values of variables.
 *
 * @throws ConfigurationError
 */
export function loadWritten(file: string): unknown {
  loadWithoutEnv(file);
  const path = resolve(file);
  const folder = dirname(path);
  const env = { ...dotEnv(join(folder, '.env')), ...process.env };
  const gathered = gather(readUtf8(path, file), { file, folder, env });
  if (!('content' in gathered)) throw new ConfigurationError(file, gathered);
  return withSqlFiles(gathered.content, (part) => dirname(gathered.originOf(part).file.at)).content;
}

/** Reads variables from a file, if it exists. */
function dotEnv(path: string): Environment {
  try {
    return parseEnv(readText(path));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw wholeFile('.env', unreadable(error));
  }
}

const wholeFile = (file: string, message: string) =>
  new ConfigurationError(file, [{ path: '', file, line: null, column: null, message }]);

export { ConfigurationError };

interface ParseOptions {
  /** The file's name in mistakes. */
  readonly file: string;
  /** Absolute folder against which relative paths resolve. */
  readonly folder: string;
  readonly env: Environment;
  readonly mayLack?: boolean;
}

/** Like `loadConfig`, for a text. */
export function parseConfig(text: string, { file, folder, env, mayLack = false }: ParseOptions): Config {
  const gathered = gather(text, { file, folder, env });
  if (!('content' in gathered)) throw new ConfigurationError(file, gathered);
  const { originOf } = gathered;
  const { content, data, issues, unset, hiddenValues, sqlFiles } = filledIn(gathered, env, mayLack);
  const files = [...gathered.files, ...new Set(sqlFiles.values())];
  const placed = (mistakes: readonly Mistake[]) =>
    mistakes.map(({ path, message }) => {
      const isSqlFile = path[2] === 'sql' && sqlFiles.has(showPath(path.slice(0, 2)));
      return shownIn(originOf(isSqlFile ? [...path.slice(0, 2), 'sqlFile'] : path), message);
    });
  const outline = outlineOf(content);
  const found = [...issues, ...(outline ? between(outline, folder, originOf, issues, unset) : [])];
  // One mistake often causes several errors.
  const mistakes = inOrder([...gathered.mistakes, ...placed(uniqBy(found, ({ path }) => showPath(path)))], gathered);
  if (!data || !outline || mistakes.length > 0) throw new ConfigurationError(file, mistakes);
  const changed = files.map((path) => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0);
  const written = withSqlFiles(gathered.content, (path) => dirname(originOf(path).file.at)).content;
  const each = (['audiences', 'traits'] as const).flatMap((section) =>
    data[section].map((item, index) => ({ section, index, key: keyOf(item) })),
  );
  const config = {
    ...normalise(data, folder, (path) => dirname(originOf(path).file.at), env),
    ...{ sourceFiles: files, changedAt: Math.max(...changed) || null },
    ...{ hiddenValues, unset },
    places: new Map(each.map(({ section, index, key }) => [key, placeOf(originOf([section, index]))] as const)),
    written: new Map(each.map(({ section, index, key }) => [key, definitionAt(written, section, index)] as const)),
    outline,
  };
  return { ...config, warnings: inOrder(placed(warningsOf(config)), gathered) };
}

/** The settings of a definition that is no SQL. */
const NOT_SQL = ['dbt', 'live', 'when', 'value', 'with', 'sends'];

function definitionAt(written: unknown, section: 'audiences' | 'traits', index: number): WrittenDefinition {
  const items = (written as Readonly<Record<string, readonly WrittenDefinition['item'][]>>)[section];
  const item = items?.[index] ?? {};
  const { sql } = item;
  if (typeof sql === 'string') return { language: 'sql', text: sql.trimEnd(), section, item };
  return { language: 'yaml', text: stringify(pick(item, NOT_SQL)).trimEnd(), section, item };
}

interface Filled {
  readonly content: unknown;
  /** Undefined if there are mistakes. */
  readonly data: ReturnType<typeof fileSchema.safeParse>['data'];
  readonly issues: readonly Mistake[];
  readonly unset: readonly UnsetVariable[];
  readonly hiddenValues: ReadonlyMap<string, string>;
  /** Absolute path by the path of its audience or trait. */
  readonly sqlFiles: ReadonlyMap<string, string>;
}

/** Fills in variables and SQL files, and checks each part. For an unset variable it tries values until one fits. */
function filledIn({ content, originOf }: Gathered, env: Environment, mayLack: boolean): Filled {
  const tries = new Map<string, number>();
  const tried = (path: Path) => standIn('', tries.get(showPath(path)) ?? 0) !== null;
  for (;;) {
    const notes: Parameters<typeof fillVariables>[2] = {
      missing: [],
      inSql: new Map(),
      instead: (name, path) => (mayLack ? standIn(name, tries.get(showPath(path)) ?? 0) : null),
    };
    const filled = fillVariables(content, env, notes);
    const { content: whole, files, mistakes } = withSqlFiles(filled, (path) => dirname(originOf(path).file.at));
    const checked = fileSchema.safeParse(whole, { error: explain });
    const wrong = checked.success ? [] : checked.error.issues.flatMap((issue) => fromIssue(issue));
    const unset = notes.missing.flatMap(({ path, name }) => (name !== undefined && mayLack ? [{ path, name }] : []));
    const again = new Set(
      unset.map(({ path }) => path).filter((path) => tried(path) && wrong.some((issue) => isWithin(path, issue.path))),
    );
    if (again.size === 0) {
      const missing = notes.missing.filter(({ path, name }) => name === undefined || !mayLack || !tried(path));
      const issues = [...missing, ...mistakes, ...wrong];
      return { content: whole, data: checked.data, issues, unset, hiddenValues: notes.inSql, sqlFiles: files };
    }
    for (const path of again) tries.set(showPath(path), (tries.get(showPath(path)) ?? 0) + 1);
  }
}

const isWithin = (path: Path, part: Path) => part.every((each, index) => path[index] === each);

/** Mistakes between the parts of a configuration, and in files that it refers to. */
function between(
  file: FileOutline,
  folder: string,
  originOf: Gathered['originOf'],
  wrong: readonly Mistake[],
  unset: readonly UnsetVariable[],
): readonly Mistake[] {
  const unknown = unset.map(({ path }) => ({ path, message: '' }));
  return [
    ...checkReferences(file, (path) => describe(originOf(path))),
    ...checkFiles(file, folder),
    ...checkLogReferences(file, [...wrong, ...unknown]),
  ].filter(({ path }) => !unset.some((each) => isWithin(each.path, path)));
}

/** Sorts by file, then by line. */
function inOrder(mistakes: readonly ShownMistake[], { names }: Gathered): readonly ShownMistake[] {
  return mistakes.toSorted((a, b) => names.indexOf(a.file) - names.indexOf(b.file) || (a.line ?? 0) - (b.line ?? 0));
}

/** @throws ConfigurationError if the file can't be read or is not UTF-8; `shown` is its name in the error */
export function readUtf8(path: string, shown: string): string {
  try {
    return readText(path);
  } catch (error) {
    throw wholeFile(shown, unreadable(error, NAME_IT));
  }
}

const NAME_IT = '. Name the file with -c FILE, or make one: rollcall init';
