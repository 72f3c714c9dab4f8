import type { Command } from 'commander';
import { alertLine } from '../../admin/lines.ts';
import type { CliContext } from '../context.ts';
import { wholeNumber } from '../options.ts';
import { table } from '../output/table.ts';
import { note, print, printJson } from '../output/terminal.ts';
import { type AppCommandOptions, addAppOptions, withApp } from '../with-app.ts';

interface AlertOptions extends AppCommandOptions {
  readonly all?: boolean;
  readonly limit: number;
}

const HELP = `
Examples:
  $ rollcall alerts
  $ rollcall alerts --all --json
  $ rollcall test rollcall:alerts:slack      posts a test alert to the hook named slack

\`alerts\` of the configuration says where they are sent: see docs/alerts.md. With --json an alert is
{"alert","kind","subject","destination","audience","run","message","openedAt","closedAt","told"}.`;

export function addAlerts(program: Command, context: CliContext): void {
  addAppOptions(program.command('alerts').description('show the alerts that are open, newest first'))
    .option('--all', 'also those that are over')
    .option('-n, --limit <n>', 'at most this many', wholeNumber(1), 50)
    .addHelpText('after', HELP)
    .action((options: AlertOptions) => alerts(options, context));
}

async function alerts({ all, limit, ...options }: AlertOptions, { terminal }: CliContext): Promise<void> {
  await withApp(options, { terminal }, async ({ app, config }) => {
    const found = await app.store.alerts({ ...(all ? {} : { isOpen: true }), limit });
    const lines = found.alerts.map((alert) => alertLine(alert, app.store.time));
    if (options.json) for (const line of lines) printJson(terminal, line);
    else if (lines.length > 0) {
      const rows = lines.map(({ openedAt, closedAt, kind, message }) => [openedAt, closedAt ?? 'open', kind, message]);
      const width = { width: terminal.stdout.columns, flexible: ['message'] };
      print(terminal, table(['opened', 'closed', 'kind', 'message'], rows, width));
    } else if (config.alerts.isOn) note(terminal, all ? 'There were no alerts.' : 'No alert is open.');
    else note(terminal, 'The configuration has no alerts: see docs/alerts.md.');
    if (found.next !== null) note(terminal, 'There are more, older ones: a higher --limit shows them.');
  });
}
