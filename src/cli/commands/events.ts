import type { Command } from 'commander';
import type { LogFault, LogSummary } from '../../events/summary.ts';
import { RollcallError } from '../../kernel/errors.ts';
import { type CliContext, EXIT } from '../context.ts';
import { note, print, printJson } from '../output/terminal.ts';
import { type AppCommandOptions, addAppOptions, withApp } from '../with-app.ts';

interface EventsOptions extends AppCommandOptions {
  readonly verify?: boolean;
}

const HELP = `
Examples:
  $ rollcall events
  $ rollcall events --verify --json

--verify reads every file whole and compares it with what the store knows. A fault is missing, size, unreadable or
events (their number differs); the exit code is then 1. A log in Postgres has no files: use the tools of Postgres.
With --json the answer is {"events","bytes","from","to","files","unsealed"}, with --verify also "faults": [{"file",
"fault"}].`;

export function addEvents(program: Command, context: CliContext): void {
  addAppOptions(program.command('events').description('size and span of the event log'))
    .option('--verify', 'read every file, and say what is wrong')
    .addHelpText('after', HELP)
    .action((options: EventsOptions) => events(options, context));
}

async function events(options: EventsOptions, { terminal, setExitCode }: CliContext): Promise<void> {
  const { summaryOf, verifyFiles } = await import('../../events/summary.ts');
  const { systemClock } = await import('../../kernel/clock.ts');
  await withApp(options, { terminal }, async ({ app, config }) => {
    const { eventLog } = config;
    if (!eventLog) throw new RollcallError('bad_usage', 'No event log is kept: see eventLog in docs/event-log.md.');
    const log = app.store.events;
    const summary = await summaryOf(log);
    let faults: readonly LogFault[] | null = null;
    if (options.verify && log.kind === 'files') {
      const tell = (done: number, of: number) => {
        if (!options.json && terminal.stderr.isTTY)
          terminal.stderr.write(`\r${done} of ${of} files${done === of ? '\n' : ''}`);
      };
      faults = await verifyFiles(log, eventLog.path, () => systemClock.token(8), tell);
    }
    if (options.verify && faults === null)
      note(terminal, 'The log is a table of Postgres: there are no files to verify.');
    if (options.json) printJson(terminal, faults ? { ...summary, faults } : summary);
    else {
      print(terminal, described(summary));
      if (faults?.length === 0) print(terminal, 'Every file is whole.');
      for (const { file, fault } of faults ?? []) print(terminal, `${fault}: ${file}`);
    }
    if (faults && faults.length > 0) setExitCode(EXIT.failed);
  });
}

function described({ events, bytes, from, to, files, unsealed }: LogSummary): string {
  const size = `${(bytes / 1_000_000).toLocaleString('en', { maximumFractionDigits: 1 })} MB`;
  const lines = [
    ['events', events.toLocaleString('en')],
    ['size', size],
    ['received', from === null ? '-' : `${from} to ${to}`],
    ...(files === null ? [] : [['files', files.toLocaleString('en')]]),
    ...(unsealed === null ? [] : [['not sealed yet', unsealed.toLocaleString('en')]]),
  ];
  const width = Math.max(...lines.map(([name = '']) => name.length));
  return lines.map(([name = '', value]) => `${name.padEnd(width)}  ${value}`).join('\n');
}
