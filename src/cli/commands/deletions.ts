import type { Command } from 'commander';
import { deletionLine } from '../../admin/lines.ts';
import type { CliContext } from '../context.ts';
import { wholeNumber } from '../options.ts';
import { stateColours } from '../output/state-colours.ts';
import { table } from '../output/table.ts';
import { note, print, printJson, type Terminal } from '../output/terminal.ts';
import { type AppCommandOptions, addAppOptions, withApp } from '../with-app.ts';

interface DeletionOptions extends AppCommandOptions {
  readonly limit: number;
}

type Deletion = ReturnType<typeof deletionLine>;

const HELP = `
Examples:
  $ rollcall deletions
  $ rollcall deletions -n 1 --json

A destination confirms by accepting the notice of each user and source. Ids of users are not shown: they are
forgotten. With --json a request is {"id","type","status","sources","users","by","createdAt","finishedAt","notices"},
where notices are [{"destination","notices","confirmed","confirmedAt"}].`;

export function addDeletions(program: Command, context: CliContext): void {
  addAppOptions(program.command('deletions').description('list deletion requests, and the destinations that confirmed'))
    .option('-n, --limit <n>', 'at most this many', wholeNumber(1), 50)
    .addHelpText('after', HELP)
    .action((options: DeletionOptions) => deletions(options, context));
}

async function deletions({ limit, ...options }: DeletionOptions, { terminal }: CliContext): Promise<void> {
  await withApp(options, { terminal }, async ({ app: { store } }) => {
    const found = await store.regulations({ limit: limit + 1 });
    const page = found.slice(0, limit);
    const confirmed = await store.confirmed(page.map(({ id }) => id));
    const lines = page.map((each) => deletionLine(each, confirmed));
    if (options.json) for (const line of lines) printJson(terminal, line);
    else if (lines.length > 0) print(terminal, deletionTable(lines, terminal));
    else note(terminal, 'Nobody has asked for a deletion.');
    if (found.length > limit) note(terminal, 'There are more, older ones: a higher --limit shows them.');
  });
}

function deletionTable(lines: readonly Deletion[], terminal: Terminal): string {
  const colour = stateColours(terminal);
  const header = ['at', 'who', 'type', 'users', 'sources', 'state', 'confirmed', 'not yet'];
  const rows = lines.map(({ createdAt, by, type, users, sources, status, notices }) => [
    createdAt,
    by ?? '-',
    type,
    String(users),
    sources?.join(', ') ?? 'all',
    colour(status),
    names(notices.filter((each) => each.confirmed >= each.notices)),
    names(notices.filter((each) => each.confirmed < each.notices)),
  ]);
  return table(header, rows, { width: terminal.stdout.columns, flexible: ['sources', 'confirmed', 'not yet'] });
}

function names(notices: Deletion['notices']): string {
  return notices.map(({ destination }) => destination).join(', ') || '-';
}
