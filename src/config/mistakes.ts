import { type Document, isMap, isPair, type LineCounter, type Node } from 'yaml';
import type { $ZodIssue } from 'zod/v4/core';
import { RollcallError } from '../kernel/errors.ts';

export type Path = readonly PropertyKey[];

/** A mistake in a configuration, with a hint for fixing it. */
export interface Mistake {
  readonly path: Path;
  readonly message: string;
}

/** A place in one of a configuration's files. Without a line it is the file as a whole. */
export interface FilePlace {
  readonly file: string;
  readonly line: number | null;
  readonly column: number | null;
}

/** A mistake as it is shown. */
export interface ShownMistake extends FilePlace {
  /** Such as `destinations[0].webhooks[1].url`; empty for the file as a whole. */
  readonly path: string;
  readonly message: string;
}

/** All mistakes in a configuration. */
export class ConfigurationError extends RollcallError {
  readonly file: string;
  readonly mistakes: readonly ShownMistake[];

  constructor(file: string, mistakes: readonly ShownMistake[]) {
    const count = mistakes.length === 1 ? 'a mistake' : `${mistakes.length} mistakes`;
    super(
      'bad_configuration',
      [
        `${file} has ${count}:`,
        ...mistakes.map((each) => `  ${isOf(file, each) ? withKey(each) : showMistake(each)}`),
      ].join('\n'),
    );
    this.file = file;
    this.mistakes = mistakes;
  }
}

/** True for a mistake of the file as a whole, which need not be named again. */
const isOf = (file: string, mistake: ShownMistake) => mistake.file === file && mistake.line === null;

export const showMistake = (mistake: ShownMistake): string => `${showPlace(mistake)}: ${withKey(mistake)}`;

const withKey = ({ path, message }: ShownMistake): string => (path === '' ? message : `${path} ${message}`);

/** A place as editors and terminals follow it. */
export function showPlace({ file, line, column }: FilePlace): string {
  return line === null ? file : `${file}:${line}:${column}`;
}

/** Translates zod's issues. For a union it reports the branch that was meant, if that is clear. */
export function fromIssue(issue: $ZodIssue, parent: Path = []): readonly Mistake[] {
  const path = [...parent, ...issue.path];
  if (issue.code === 'unrecognized_keys') {
    const lines = issue.message.split('\n');
    return issue.keys.map((key, index) => ({ path: [...path, key], message: lines[index] ?? 'is not a known key' }));
  }
  if (issue.code === 'invalid_key') return issue.issues.flatMap((nested) => fromIssue(nested, path));
  if (issue.code === 'invalid_union') {
    const possible = issue.errors.filter((branch) => !branch.some(isWrongType));
    // A mistake inside a map shows that the map was meant.
    const within = possible.filter((branch) => branch.some((nested) => nested.path.length > 0));
    const meant = possible.length > 1 ? within : possible;
    if (meant.length === 1 && meant[0]) return meant[0].flatMap((nested) => fromIssue(nested, path));
  }
  return [{ path, message: issue.message }];
}

function isWrongType(issue: $ZodIssue): boolean {
  return issue.code === 'invalid_type' && issue.path.length === 0;
}

/** Messages for zod's issues if a schema has none of its own. */
export function explain(issue: { readonly code?: string; readonly [key: string]: unknown }): string | undefined {
  if (issue.code === 'invalid_type') {
    if (issue['input'] === undefined) return 'is required';
    if (issue['input'] === null) return 'is empty: give it a value, or remove it';
    const hint = issue['expected'] === 'string' ? '. Put it in quotes' : '';
    return `must be ${named(String(issue['expected']))}, not ${named(kindOf(issue['input']))}${hint}`;
  }
  if (issue.code === 'invalid_value') return `must be ${(issue['values'] as readonly unknown[]).join(' or ')}`;
  return undefined;
}

function kindOf(value: unknown): string {
  return Array.isArray(value) ? 'array' : typeof value;
}

function named(kind: string): string {
  const names: Record<string, string> = { array: 'a list', object: 'a map', record: 'a map', string: 'text' };
  return names[kind] ?? `a ${kind}`;
}

/** Formats a path such as `a.b[0].c`. */
export function showPath(path: Path): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === 'number') return `${text}[${part}]`;
    return text === '' ? String(part) : `${text}.${String(part)}`;
  }, '');
}

/** The place of a part in its file, or of the nearest one around it. */
export function placeIn(document: Document, lines: LineCounter, path: Path): Omit<FilePlace, 'file'> {
  for (let length = path.length; length > 0; length -= 1) {
    const offset = offsetOf(document, path.slice(0, length));
    if (offset !== undefined) return placeAt(lines, offset);
  }
  return { line: null, column: null };
}

export function placeAt(lines: LineCounter, offset: number): Omit<FilePlace, 'file'> {
  const { line, col } = lines.linePos(offset);
  return { line, column: col };
}

function offsetOf(document: Document, path: Path): number | undefined {
  const parent = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
  const last = path.at(-1);
  if (isMap(parent)) {
    const pair = parent.items.find((item) => isPair(item) && String(item.key) === String(last));
    return (pair?.key as Node | undefined)?.range?.[0];
  }
  return (document.getIn(path, true) as Node | undefined)?.range?.[0];
}
