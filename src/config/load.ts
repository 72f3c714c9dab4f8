import { readFileSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import type { Config } from './config.ts';
import { parseFile } from './document.ts';
import { checkFiles } from './file-references.ts';
import { checkLogReferences } from './log-references.ts';
import { ConfigurationError, explain, fromIssue, lineOf, type Mistake, showPath } from './mistakes.ts';
import { normalise } from './normalise.ts';
import { outlineOf } from './outline.ts';
import { checkReferences } from './references.ts';
import { fileSchema } from './schema.ts';
import { type Environment, fillVariables } from './variables.ts';
import { warningsOf } from './warnings.ts';

/**
 * Reads, checks and completes a configuration file. Variables come from the environment, or else from a file `.env` in the same folder.
 *
 * @throws ConfigurationError (`bad_configuration`) with every mistake in it
 */
export function loadConfig(file: string, env: Environment = process.env): Config {
  const path = resolve(file);
  const folder = dirname(path);
  const text = readUtf8(path, file);
  const config = parseConfig(text, { file, folder, env: { ...dotEnv(join(folder, '.env')), ...env } });
  return { ...config, changedAt: statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? null };
}

/** Reads variables from a file, if it exists. */
function dotEnv(path: string): Environment {
  try {
    return parseEnv(readText(path));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw new ConfigurationError('.env', [{ path: '', line: null, message: unreadable(error) }]);
  }
}

export { ConfigurationError };

interface ParseOptions {
  /** The file's name in mistakes. */
  readonly file: string;
  /** Absolute folder against which relative paths resolve. */
  readonly folder: string;
  readonly env: Environment;
}

/** Like `loadConfig`, for a text. */
export function parseConfig(text: string, { file, folder, env }: ParseOptions): Config {
  const parsed = parseFile(text);
  if (!('document' in parsed)) throw new ConfigurationError(file, parsed);
  const { document, lines } = parsed;
  const shown = (mistakes: readonly Mistake[]) =>
    mistakes
      .map(({ path, message }) => ({ path: showPath(path), line: lineOf(document, lines, path), message }))
      .sort((a, b) => (a.line ?? 0) - (b.line ?? 0));
  const refuse = (mistakes: readonly Mistake[]): never => {
    throw new ConfigurationError(file, shown(mistakes));
  };
  const missing: Mistake[] = [];
  const hiddenValues = new Map<string, string>();
  const content = fillVariables(parsed.content, env, { missing, inSql: hiddenValues });
  const checked = fileSchema.safeParse(content, { error: explain });
  const issues = checked.success ? [] : checked.error.issues.flatMap((issue) => fromIssue(issue));
  const mistakes = firstOfEachPath([...missing, ...issues, ...between(content, folder, [...missing, ...issues])]);
  if (!checked.success || mistakes.length > 0) return refuse(mistakes);
  const config = { ...normalise(checked.data, folder), changedAt: null, hiddenValues };
  return { ...config, warnings: shown(warningsOf(config)) };
}

/** Mistakes between the parts of a file, and in files that it refers to. */
function between(content: unknown, folder: string, wrong: readonly Mistake[]): readonly Mistake[] {
  const file = outlineOf(content);
  if (!file) return [];
  return [...checkReferences(file), ...checkFiles(file, folder), ...checkLogReferences(file, wrong)];
}

/** @throws ConfigurationError if the file can't be read or is not UTF-8; `shown` is its name in the error */
export function readUtf8(path: string, shown: string): string {
  try {
    return readText(path);
  } catch (error) {
    throw new ConfigurationError(shown, [{ path: '', line: null, message: unreadable(error, NAME_IT) }]);
  }
}

const NAME_IT = '. Name the file with -c FILE, or make one: rollcall init';

/** Drops a byte order mark. Rejects other encodings, which Windows may write: the text would be silently wrong. */
const readText = (path: string) => new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path));

function unreadable(error: unknown, hint = ''): string {
  const { message, code } = error as NodeJS.ErrnoException;
  if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA') return 'is not UTF-8: save it in that encoding';
  return `cannot be read: ${code === 'ENOENT' ? 'there is no such file' : message}${hint}`;
}

/** One mistake often causes several errors. */
function firstOfEachPath(mistakes: readonly Mistake[]): readonly Mistake[] {
  const seen = new Map<string, Mistake>();
  for (const mistake of mistakes) {
    const path = showPath(mistake.path);
    if (!seen.has(path)) seen.set(path, mistake);
  }
  return [...seen.values()];
}
