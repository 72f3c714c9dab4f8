import { type Document, LineCounter, type Node, parseDocument, visit, type YAMLError } from 'yaml';
import { placeAt, type ShownMistake } from './mistakes.ts';

/** A parsed YAML file, with the places of its parts. */
export interface ParsedFile {
  /** The file's name in mistakes. */
  readonly file: string;
  readonly content: unknown;
  readonly document: Document;
  readonly lines: LineCounter;
}

/** Parses YAML. Returns the file or its mistakes. */
export function parseFile(text: string, file: string): ParsedFile | readonly ShownMistake[] {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, merge: true, prettyErrors: false });
  const fault = (offset: number | undefined, message: string): ShownMistake => ({
    ...{ path: '', file },
    ...(offset === undefined ? { line: null, column: null } : placeAt(lines, offset)),
    message,
  });
  const faults = [
    ...document.errors.map((error) => fault(error.pos[0], explained(error, text))),
    ...document.warnings.map(({ pos, message }) => fault(pos[0], unknownTag(message))),
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
  if (code === 'MULTIPLE_DOCS') return 'must be one document: nothing may follow a second ---';
  const start = text.lastIndexOf('\n', pos[0] - 1) + 1;
  const [line = ''] = text.slice(start).split('\n', 1);
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
  return faults.filter(
    ({ line }, index) => line === null || faults.findIndex((other) => other.line === line) === index,
  );
}
