import type { Command } from 'commander';
import { discardLine } from '../../admin/lines.ts';
import { given } from '../../kernel/given.ts';
import type { Discard } from '../../store/port.ts';
import type { CliContext } from '../context.ts';
import { wholeNumber } from '../options.ts';
import { table } from '../output/table.ts';
import { note, print, printJson, type Terminal } from '../output/terminal.ts';
import { noteUnknown } from '../unknown-names.ts';
import { type AppCommandOptions, addAppOptions, withApp } from '../with-app.ts';

interface DiscardOptions extends AppCommandOptions {
  readonly source?: string;
  readonly limit: number;
}

const HELP = `
Example:
  $ rollcall discards --source shop

Clients get the reason, but few look at it. docs/errors.md says what each code means. The newest 200 samples of each
source are kept; the metric rollcall_discards_total counts all. Samples contain no ids and no personal data.`;

const SAMPLE_WIDTH = 160;

export function addDiscards(program: Command, context: CliContext): void {
  addAppOptions(program.command('discards').description('show messages that collection refused, newest first'))
    .option('--source <id>', 'only of this source')
    .option('-n, --limit <n>', 'at most this many', wholeNumber(1), 200)
    .addHelpText('after', HELP)
    .action((options: DiscardOptions) => discards(options, context));
}

async function discards(options: DiscardOptions, { terminal }: CliContext): Promise<void> {
  const { source, limit } = options;
  await withApp(options, { terminal }, async ({ app, config }) => {
    const found = await app.store.discards({ limit: limit + 1, ...given({ source }) });
    const shown = found.slice(0, limit);
    if (options.json) for (const discard of shown) printJson(terminal, discardLine(discard));
    else if (shown.length > 0) print(terminal, discardTable(shown, terminal));
    else note(terminal, 'Nothing was discarded.');
    if (found.length > limit) note(terminal, 'There are more, older ones: a higher --limit shows them.');
    if (shown.length === 0) noteUnknown(terminal, config, options);
  });
}

function discardTable(discards: readonly Discard[], terminal: Terminal): string {
  const rows = discards.map(({ source, code, at, message }) => [
    new Date(at).toISOString(),
    source,
    code,
    message.length > SAMPLE_WIDTH ? `${message.slice(0, SAMPLE_WIDTH - 1)}…` : message,
  ]);
  const flexible = ['source', 'message'];
  return table(['at', 'source', 'code', 'message'], rows, { width: terminal.stdout.columns, flexible });
}
