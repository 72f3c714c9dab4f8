import { Command, CommanderError } from 'commander';
import pc from 'picocolors';
import { RollcallError } from '../errors.ts';
import { VERSION } from '../version.ts';
import { addBackup } from './commands/backup.ts';
import { addConfig } from './commands/config.ts';
import { addDeadLetters } from './commands/dead-letters.ts';
import { addDestinations } from './commands/destinations.ts';
import { addDoctor } from './commands/doctor.ts';
import { addEndpoints } from './commands/endpoints.ts';
import { addForget } from './commands/forget.ts';
import { addListen } from './commands/listen.ts';
import { addMigrate } from './commands/migrate.ts';
import { addPlan } from './commands/plan.ts';
import { addRuns } from './commands/runs.ts';
import { addServe } from './commands/serve.ts';
import { addSync } from './commands/sync.ts';
import { addTypes } from './commands/types.ts';
import { addWhy } from './commands/why.ts';
import { type Context, EXIT } from './context.ts';
import { note, type Terminal } from './terminal.ts';

const AFTER_HELP = `
Exit codes:
  0  done
  1  failed
  2  bad usage or configuration
  3  held by a guard: see rollcall runs, approve, reject
  4  done, but not all of it is delivered yet

In a checkout: npm run -s rollcall -- ARGS`;

/** In the order of the help. */
const COMMANDS = [
  addServe,
  addSync,
  addPlan,
  addRuns,
  addWhy,
  addForget,
  addDeadLetters,
  addEndpoints,
  addDestinations,
  addListen,
  addTypes,
  addConfig,
  addMigrate,
  addBackup,
  addDoctor,
];

/** Runs one command line to its exit code. */
export async function runProgram(args: readonly string[], terminal: Terminal): Promise<number> {
  let code: number = EXIT.done;
  const program = buildProgram(terminal, (outcome) => {
    code = outcome;
  });
  try {
    await program.parseAsync(args, { from: 'user' });
    return code;
  } catch (error) {
    return explain(error, terminal);
  }
}

function buildProgram(terminal: Terminal, setExitCode: Context['setExitCode']): Command {
  const program = new Command('rollcall')
    .description('Keeps audiences in sync with your own apps, and forwards every message as a signed webhook.')
    .version(VERSION, '-V, --version')
    .exitOverride()
    .showHelpAfterError('(add --help for help)')
    .configureOutput({
      writeOut: (text) => void terminal.stdout.write(text),
      writeErr: (text) => void terminal.stderr.write(text),
    })
    .addHelpText('after', AFTER_HELP);
  const context: Context = { terminal, setExitCode };
  for (const add of COMMANDS) add(program, context);
  return program;
}

const USAGE = new Set(['bad_configuration', 'bad_usage', 'unknown_audience', 'unknown_run']);

function explain(error: unknown, terminal: Terminal): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
  if (!(error instanceof RollcallError)) {
    note(terminal, error instanceof Error ? (error.stack ?? error.message) : String(error));
    return EXIT.failed;
  }
  note(terminal, `${pc.createColors(terminal.stderr.isTTY === true).red(error.code)}: ${error.message}`);
  if (error.code === 'run_held') return EXIT.held;
  return USAGE.has(error.code) ? EXIT.usage : EXIT.failed;
}
