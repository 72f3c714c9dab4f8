import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const PAGE = readFileSync(join(import.meta.dirname, '../../../docs/event-log.md'), 'utf8');

/** The statements of docs/event-log.md for an engine, whose first line names it. */
export function statementOf(engine: string): string {
  const blocks = [...PAGE.matchAll(/```(?:sql|python)\n(.*?)```/gs)].map(([, block = '']) => block);
  const block = blocks.find((each) => new RegExp(`^(--|#) ${engine}\\b`).test(each));
  if (block === undefined) throw new Error(`docs/event-log.md has no statement for ${engine}`);
  return block.replace(/^(--|#).*\n/, '');
}

/** The view that leaves out events of files that were replaced a moment ago. */
export const EVENTS_VIEW = statementOf('all of them');
