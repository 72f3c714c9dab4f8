import { type Command, CommanderError } from 'commander';
import { RollcallError } from '../kernel/errors.ts';
import { VERSION } from '../kernel/version.ts';
import { addAlerts } from './commands/alerts.ts';
import { addApprove } from './commands/approve.ts';
import { addAudiences } from './commands/audiences.ts';
import { addAudit } from './commands/audit.ts';
import { addBackup } from './commands/backup.ts';
import { addCompletion } from './commands/completion.ts';
import { addConfig } from './commands/config.ts';
import { addDeadLetters } from './commands/dead-letters.ts';
import { addDeletions } from './commands/deletions.ts';
import { addDemo } from './commands/demo.ts';
import { addDestinations } from './commands/destinations.ts';
import { addDiscards } from './commands/discards.ts';
import { addDoctor } from './commands/doctor.ts';
import { addEndpoints } from './commands/endpoints.ts';
import { addEngines } from './commands/engines.ts';
import { addEvents } from './commands/events.ts';
import { addForget } from './commands/forget.ts';
import { addInit } from './commands/init.ts';
import { addLink } from './commands/link.ts';
import { addListen } from './commands/listen.ts';
import { addMembers } from './commands/members.ts';
import { addMessages } from './commands/messages.ts';
import { addMigrate } from './commands/migrate.ts';
import { addPerson } from './commands/person.ts';
import { addPlan } from './commands/plan.ts';
import { addReject } from './commands/reject.ts';
import { addResync } from './commands/resync.ts';
import { addRetire } from './commands/retire.ts';
import { addRuns } from './commands/runs.ts';
import { addServe } from './commands/serve.ts';
import { addSync } from './commands/sync.ts';
import { addTest } from './commands/test.ts';
import { addTypes } from './commands/types.ts';
import { addWhy } from './commands/why.ts';
import { type CliContext, EXIT } from './context.ts';
import { note, printError, printJson, type Terminal } from './output/terminal.ts';
import { SuggestingCommand } from './suggesting-command.ts';

const AFTER_HELP = `
Exit codes:
  0  done
  1  failed
  2  bad usage or configuration
  3  held by a guard or an expectation: see rollcall runs, approve, reject
  4  done, but not all of it is delivered yet

Documentation: node_modules/rollcall/docs
In a checkout: npm run -s rollcall -- ARGS`;

/** All commands, in the order of the help. */
const COMMANDS = [
  addInit,
  addDemo,
  addServe,
  addLink,
  addSync,
  addPlan,
  addAudiences,
  addMembers,
  addRuns,
  addApprove,
  addReject,
  addPerson,
  addWhy,
  addRetire,
  addResync,
  addForget,
  addDeletions,
  addMessages,
  addDeadLetters,
  addDiscards,
  addEvents,
  addAudit,
  addAlerts,
  addEndpoints,
  addEngines,
  addDestinations,
  addTest,
  addListen,
  addTypes,
  addConfig,
  addMigrate,
  addBackup,
  addDoctor,
  addCompletion,
];

/** Run one command line. Resolves to its exit code. */
export async function runProgram(args: readonly string[], terminal: Terminal): Promise<number> {
  let code: number = EXIT.done;
  const program = buildProgram(terminal, (outcome) => {
    code = outcome;
  });
  try {
    await program.parseAsync(args, { from: 'user' });
    return code;
  } catch (error) {
    return explain(error, terminal, args.includes('--json'));
  }
}

export function buildProgram(terminal: Terminal, setExitCode: CliContext['setExitCode']): Command {
  const program = new SuggestingCommand('rollcall')
    .description('Keeps audiences in sync with your own apps, and forwards every message as a signed webhook.')
    .version(VERSION, '-V, --version')
    .exitOverride()
    .showHelpAfterError('(add --help for help)')
    .configureOutput({
      writeOut: (text) => void terminal.stdout.write(text),
      writeErr: (text) => void terminal.stderr.write(text),
    })
    .addHelpText('after', AFTER_HELP);
  const context: CliContext = { terminal, setExitCode };
  for (const add of COMMANDS) add(program, context);
  return program;
}

/** Error codes that exit with 2. */
export const USAGE_CODES = new Set([
  ...['bad_configuration', 'bad_usage', 'unknown_audience', 'unknown_run', 'event_log_stays'],
  ...['unauthorized', 'forbidden', 'no_admin_token', 'bad_token_file'],
]);
const STOPPED = new Set(['stopping', 'store_closed', 'interrupted']);

/** True for failures that follow from an interruption. Aborted waits throw Node's AbortError. */
const isStop = (error: unknown) =>
  error instanceof RollcallError ? STOPPED.has(error.code) : error instanceof Error && error.name === 'AbortError';

const INTERRUPTED =
  'Interrupted. Nothing that was accepted is lost: a running service goes on with it, or the next sync or start does.';

function explain(error: unknown, terminal: Terminal, json: boolean): number {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return EXIT.done;
    // Commander has printed the message.
    if (json) printJson(terminal, { error: { code: 'bad_usage', message: error.message.replace(/^error: /, '') } });
    return EXIT.usage;
  }
  if (terminal.signal.aborted && isStop(error)) {
    if (json) printJson(terminal, { error: { code: 'stopping', message: INTERRUPTED } });
    note(terminal, INTERRUPTED);
    return EXIT.failed;
  }
  if (!(error instanceof RollcallError)) {
    const message = error instanceof Error ? error.message : String(error);
    if (json) printJson(terminal, { error: { code: 'internal_error', message } });
    note(terminal, error instanceof Error ? (error.stack ?? error.message) : String(error));
    return EXIT.failed;
  }
  const { code, message } = error;
  printError(terminal, { code, message }, json);
  if (code === 'run_held') return EXIT.held;
  return USAGE_CODES.has(code) ? EXIT.usage : EXIT.failed;
}
