import { type Document, isCollection, LineCounter, type Node, parseDocument, visit, type YAMLError } from 'yaml';
import { placeAt, type ShownMistake } from './mistakes.ts';

/** A parsed YAML file, with the places of its parts. */
export interface ParsedFile {
  /** The file's name in mistakes. */
  readonly file: string;
  readonly content: unknown;
  readonly document: Document;
  readonly lines: LineCounter;
}

/** Far more than any configuration has. What is deeper takes the parser minutes. */
const MOST_DEPTH = 100;
const TOO_DEEP = 'is nested too deeply';
/** Errors that are explained, and the characters of a line that are read for it. */
const MOST_ERRORS = 100;
const LINE_LIMIT = 300;

/** Parses YAML, also of strangers. Returns the file or its mistakes. */
export function parseFile(text: string, file: string): ParsedFile | readonly ShownMistake[] {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, merge: true, prettyErrors: false });
  const fault = (offset: number | undefined, message: string): ShownMistake => ({
    ...{ path: '', file },
    ...(offset === undefined ? { line: null, column: null } : placeAt(lines, offset)),
    message,
  });
  const wrong = wrongNesting(document);
  if (wrong) return [fault(wrong.offset, wrong.message)];
  const faults = [
    ...document.errors.slice(0, MOST_ERRORS).map((error) => fault(error.pos[0], explained(error, text))),
    ...document.warnings.slice(0, MOST_ERRORS).map(({ pos, message }) => fault(pos[0], unknownTag(message))),
    ...[...wrongAliases(document), ...wrongNumbers(document)].map(({ offset, message }) => fault(offset, message)),
  ];
  if (faults.length > 0) return firstOfEachLine(faults);
  try {
    return { file, content: document.toJS() ?? {}, document, lines };
  } catch {
    return [fault(undefined, 'repeats its parts too often by aliases (*name)')];
  }
}

/** Adds a hint if a value probably needs quotes. */
function explained({ code, message, pos }: YAMLError, text: string): string {
  if (code === 'RESOURCE_EXHAUSTION') return TOO_DEEP;
  if (code === 'MULTIPLE_DOCS') return 'must be one document: nothing may follow a second ---';
  const start = text.lastIndexOf('\n', pos[0] - 1) + 1;
  const [line = ''] = text.slice(start, start + LINE_LIMIT).split('\n', 1);
  if (/(?:^|[\s,[{])(?:\S+:|-)\s+\*/.test(line))
    return `${message}. A value that begins with * must stand in quotes, such as "*/15 * * * *"`;
  if (/[[{].*[\s,[{]\$\{/.test(line)) return `${message}. Within { } and [ ], \${…} must stand in quotes`;
  return message;
}

/** The parser only warns of a tag that it doesn't know, and treats the value as text. */
function unknownTag(message: string): string {
  const advice = /!include\b/.test(message) ? '. SQL in a file of its own is sqlFile: FILE' : '';
  return `${message.replace(/^Unresolved tag: /, 'unknown tag ')}. Remove it, or put the value in quotes${advice}`;
}

interface Fault {
  readonly offset: number | undefined;
  readonly message: string;
}

/** Finds a part that is nested too deeply, or a key that is no text. */
function wrongNesting(document: Document): Fault | null {
  let found: Fault | null = null;
  visit(document, {
    Node(_key, { range }, path) {
      const offset = range?.[0];
      if (path.length > MOST_DEPTH) found = { offset, message: TOO_DEEP };
      return found ? visit.BREAK : undefined;
    },
    Pair(_key, { key }) {
      if (isCollection(key)) found = { offset: key.range?.[0], message: 'a key must be text' };
      return found ? visit.BREAK : undefined;
    },
  });
  return found;
}

/** Finds aliases without an anchor, and aliases within their own anchor, whose value would be endless. */
function wrongAliases(document: Document): readonly Fault[] {
  const faults: Fault[] = [];
  const named = new Map<string, unknown>();
  visit(document, {
    Value(_key, value) {
      if (value.anchor !== undefined) named.set(value.anchor, value);
    },
    Alias(_key, { source, range }, path) {
      const target = named.get(source);
      const offset = range?.[0];
      if (target === undefined) {
        const message = `*${source} names nothing: a value that begins with * must stand in quotes, unless it repeats what &${source} named before`;
        faults.push({ offset, message });
      } else if (path.includes(target as Node)) {
        faults.push({ offset, message: `*${source} stands within what it names` });
      }
    },
  });
  return faults;
}

/** Finds numbers that would be read as others than they are written, such as 00123 and 5.10: probably text. */
function wrongNumbers(document: Document): readonly Fault[] {
  const faults: Fault[] = [];
  visit(document, {
    Scalar(_key, { value, source, range }) {
      if (!Number.isFinite(value) || source === undefined || source === String(value)) return;
      const message = `${source} means the number ${value}. Write it so, or put it in quotes if it is text`;
      faults.push({ offset: range?.[0], message });
    },
  });
  return faults;
}

/** One mistake in a line often causes several errors. */
function firstOfEachLine(faults: readonly ShownMistake[]): readonly ShownMistake[] {
  const seen = new Set<number | null>();
  return faults.filter(({ line }) => line === null || seen.size < seen.add(line).size);
}
