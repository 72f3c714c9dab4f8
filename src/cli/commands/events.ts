import type { Command } from 'commander';
import type { LogFault, LogSummary } from '../../events/summary.ts';
import { systemClock } from '../../kernel/clock.ts';
import { RollcallError } from '../../kernel/errors.ts';
import { waitForLease } from '../../kernel/keep-lease.ts';
import { EVENT_LOG_LEASE, type FileLog } from '../../store/event-log.ts';
import type { LogFiles } from '../../store/events/files.ts';
import { confirm } from '../confirm.ts';
import { type CliContext, EXIT } from '../context.ts';
import { count, note, print, printJson, type Terminal } from '../output/terminal.ts';
import { type AppCommandOptions, addAppOptions, type OpenedApp, withApp } from '../with-app.ts';
import { addEventSends } from './event-sends.ts';

interface EventsOptions extends AppCommandOptions {
  readonly verify?: boolean;
  readonly forgetMissing?: boolean;
  readonly yes?: boolean;
}

/** Milliseconds that the command waits for a process that works on the log, and between two looks. */
const PATIENCE = 60_000;
const ASK_EVERY = 500;

const HELP = `
Examples:
  $ rollcall events
  $ rollcall events --verify --json

--verify reads every file whole and compares it with what the store knows. A fault is missing, size, unreadable or
events (their number differs); the exit code is then 1. A log in Postgres has no files: use the tools of Postgres.
--forget-missing asks, then goes on without files that are lost for good. Audiences over the log lack their events.
With --json the answer is {"events","bytes","from","to","files","unsealed"}, with --verify also "faults": [{"file",
"fault"}].`;

export function addEvents(program: Command, context: CliContext): void {
  const command = program.command('events').description('show the event log, and send past events to a destination');
  addEventSends(command, context);
  addAppOptions(command.command('show', { isDefault: true }).description('size and span of the event log'))
    .option('--verify', 'read every file, and say what is wrong')
    .option('--forget-missing', 'take files that are no longer there off the log')
    .option('-y, --yes', 'do not ask')
    .addHelpText('after', HELP)
    .action((options: EventsOptions) => events(options, context));
}

async function events(options: EventsOptions, { terminal, setExitCode }: CliContext): Promise<void> {
  const { summaryOf, verifyFiles } = await import('../../events/summary.ts');
  const { filesOf } = await import('../../store/events/open-files.ts');
  await withApp(options, { terminal }, async ({ app, config }) => {
    const { eventLog } = config;
    if (!eventLog) throw new RollcallError('bad_usage', 'No event log is kept: see eventLog in docs/event-log.md.');
    const log = app.store.events;
    const files = filesOf(eventLog);
    if (options.forgetMissing && log.kind === 'files') await forgetMissing(files, log, app, options, terminal);
    const summary = await summaryOf(log);
    let faults: readonly LogFault[] | null = null;
    if (options.verify && log.kind === 'files') {
      const tell = (done: number, of: number) => {
        if (!options.json && terminal.stderr.isTTY)
          terminal.stderr.write(`\r${done} of ${of} files${done === of ? '\n' : ''}`);
      };
      faults = await verifyFiles(log, files, () => systemClock.token(8), tell);
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

async function forgetMissing(
  files: LogFiles,
  log: FileLog,
  { store }: OpenedApp['app'],
  options: EventsOptions,
  terminal: Terminal,
): Promise<void> {
  const { missingFiles } = await import('../../events/missing.ts');
  const missing = await missingFiles(files, log);
  const events = missing.reduce((sum, file) => sum + file.events, 0);
  const what = `${count(missing.length, 'file')} with ${count(events, 'event')}`;
  if (missing.length === 0 || !(await confirm(terminal, `${what} will be off the log.`, options.yes))) return;
  const lease = await waitForLease(store, systemClock, EVENT_LOG_LEASE, { patience: PATIENCE, askEvery: ASK_EVERY });
  if (!lease) throw new RollcallError('store_busy', 'Another process is working on the event log. Try again later.');
  const names = missing.map(({ name }) => name);
  await log.replace(lease.fence, names, []).finally(() => lease.release());
  note(terminal, `${what} are off the log.`);
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
