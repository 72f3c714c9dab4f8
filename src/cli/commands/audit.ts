import type { Command } from 'commander';
import { auditLine } from '../../admin/lines.ts';
import { given } from '../../kernel/given.ts';
import { suggestion } from '../../kernel/spelling.ts';
import type { AuditRecord } from '../../store/port.ts';
import type { CliContext } from '../context.ts';
import { instantOption, wholeNumber } from '../options.ts';
import { table } from '../output/table.ts';
import { note, print, printJson, type Terminal } from '../output/terminal.ts';
import { type AppCommandOptions, addAppOptions, withApp } from '../with-app.ts';

interface AuditOptions extends AppCommandOptions {
  readonly who?: string;
  readonly action?: string;
  readonly since?: number;
  readonly limit: number;
}

const HELP = `
Examples:
  $ rollcall audit --since 2026-01-31
  $ rollcall audit --action run.approve --json

"who" is the name of a token, local without tokens, or cli:USER. Your users are never named. With --json a record is
{"at","who","action","target","outcome"}: outcome is done, the code of the failure, or null while it is in progress.`;

export function addAudit(program: Command, context: CliContext): void {
  addAppOptions(program.command('audit').description('show who did what, newest first'))
    .option('--who <name>', 'only by them')
    .option('--action <action>', 'only this, such as run.approve')
    .option('--since <time>', 'only since then', instantOption)
    .option('-n, --limit <n>', 'at most this many', wholeNumber(1), 50)
    .addHelpText('after', HELP)
    .action((options: AuditOptions) => audit(options, context));
}

async function audit({ who, action, since, limit, ...options }: AuditOptions, { terminal }: CliContext): Promise<void> {
  const filter = given({ who, action, since });
  await withApp(options, { terminal }, async ({ app }) => {
    const found = await app.store.audits({ ...filter, limit: limit + 1 });
    const shown = found.slice(0, limit);
    if (options.json) for (const record of shown) printJson(terminal, auditLine(record));
    else if (shown.length > 0) print(terminal, auditTable(shown, terminal));
    else if (Object.keys(filter).length === 0) note(terminal, 'Nobody has done anything yet.');
    else note(terminal, `Nobody did that${misspelt(filter, await app.store.audits({ limit: LOOKED_AT }))}`);
    if (found.length > limit) note(terminal, 'There are more, older ones: a higher --limit shows them.');
  });
}

/** Records searched for a name that was probably meant. */
const LOOKED_AT = 1_000;

/** The end of the sentence, with a suggestion if a name may be misspelt. */
function misspelt(given: { who?: string; action?: string }, records: readonly AuditRecord[]): string {
  for (const name of ['action', 'who'] as const) {
    const known = new Set(records.map((record) => record[name]));
    const wanted = given[name];
    if (wanted === undefined || known.has(wanted)) continue;
    const help = suggestion(wanted, [...known]);
    if (help.endsWith('?')) return help;
  }
  return '.';
}

function auditTable(records: readonly AuditRecord[], { stdout }: Terminal): string {
  const rows = records
    .map(auditLine)
    .map(({ at, who, action, target, outcome }) => [at, who, action, target ?? '-', outcome ?? 'under way']);
  return table(['at', 'who', 'action', 'target', 'outcome'], rows, { width: stdout.columns, flexible: ['target'] });
}
