import { text } from 'node:stream/consumers';
import { Parser, type Result } from 'tap-parser';
import { stringify } from 'yaml';

/*
 * What failed in a run of tap, with what is known of it: `npm test | node scripts/failed-tests.ts`. A run prints some 30,000
 * lines, of which whoever looks at it afterwards often has the last hundreds only.
 */

/** Lines of all, lines of one, and the longest line. */
const MOST_LINES = 200;
const MOST_OF_ONE = 40;
const MOST_WIDE = 300;
/** Where tap found it in our files is in the stack and in the name. */
const LEFT_OUT = new Set(['at', 'source', 'args', 'command', 'cwd', 'externalID', 'stdio', 'jobId']);

interface Failure {
  /** The suite, the file, the tests around it and its own name. */
  readonly name: string;
  readonly lines: readonly string[];
}

/** The assertions that failed; a test or file only where nothing in it did, or where a signal ended it. */
export function failuresOf(tap: string): readonly Failure[] {
  const failures: Failure[] = [];
  const watch = (parser: Parser) => {
    let before = failures.length;
    parser.on('child', (child: Parser) => {
      before = failures.length;
      watch(child);
    });
    parser.on('assert', (result: Result) => {
      const isTold = failures.length > before && result.diag?.signal == null;
      before = failures.length;
      if (result.ok || result.todo || result.skip || isTold) return;
      failures.push({ name: result.fullname, lines: linesOf(result.diag) });
      before = failures.length;
    });
  };
  const parser = new Parser();
  watch(parser);
  parser.end(tap);
  return failures;
}

function linesOf(diagnostics: Result['diag']): readonly string[] {
  const shown = Object.entries(diagnostics ?? {}).filter(([name]) => !LEFT_OUT.has(name));
  if (shown.length === 0) return [];
  return stringify(Object.fromEntries(shown), { lineWidth: 0 }).trimEnd().split('\n');
}

/** As text, bounded; each has at least its name as long as there are lines. */
export function report(failures: readonly Failure[]): string {
  const each = Math.min(MOST_OF_ONE, Math.floor(MOST_LINES / Math.max(1, failures.length)) - 1);
  const shown = failures.slice(0, MOST_LINES).flatMap(({ name, lines }) => {
    const cut = lines.length > each ? [...lines.slice(0, Math.max(0, each - 1)), ...(each > 0 ? ['…'] : [])] : lines;
    return [`not ok: ${name}`, ...cut.map((line) => `  ${line}`)];
  });
  const more = failures.length - MOST_LINES;
  if (more > 0) shown.push(`… and ${more} more`);
  return shown.map((line) => (line.length > MOST_WIDE ? `${line.slice(0, MOST_WIDE)}…` : line)).join('\n');
}

if (import.meta.main) console.log(report(failuresOf(await text(process.stdin))));
