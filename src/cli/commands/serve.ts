import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { RollcallError } from '../../kernel/errors.ts';
import type { CliContext } from '../context.ts';
import { configOption, jsonOption } from '../options.ts';
import { aborted, note, printJson, type Terminal } from '../output/terminal.ts';
import { isFull, untilRoom } from '../until-room.ts';
import { type AppCommandOptions, type OpenAppOptions, type OpenedApp, withApp } from '../with-app.ts';

const SIGNALS = `
It stops cleanly on SIGINT or SIGTERM, and nothing accepted is lost. A second signal ends it at once.
SIGHUP, or rollcall config reload, applies a changed configuration file.
With --json it prints {"address"} once it is ready, null if it does not collect. Logs are JSON unless stderr is a
terminal.`;

/** Wherever schedules run, nobody may be there to be asked. */
export const renamesOption = () =>
  new Option('-y, --yes', 'end renamed audiences under their former names; they are held for approval otherwise');

export interface ServeOptions extends AppCommandOptions {
  readonly yes?: boolean;
}

export function addServe(program: Command, context: CliContext): void {
  program
    .command('start')
    .description('run everything in one process: collection, delivery, schedules, pages')
    .addOption(configOption())
    .addOption(jsonOption())
    .addOption(renamesOption())
    .addHelpText('after', `\nExample:\n  $ rollcall start -c rollcall.yaml\n${SIGNALS}`)
    .action((options: ServeOptions) => serve(options, { collect: true, schedules: true }, context));
  program
    .command('serve')
    .description('run collection and delivery, no schedules')
    .addOption(configOption())
    .addOption(jsonOption())
    .addHelpText('after', `\nExample:\n  $ rollcall serve -c rollcall.yaml\n${SIGNALS}`)
    .action((options: AppCommandOptions) => serve(options, { collect: true, schedules: false }, context));
}

/** Runs until it has to end. */
export async function serve(
  options: ServeOptions,
  roles: Roles,
  context: CliContext,
  adapt: OpenAppOptions['adapt'] = (config) => config,
): Promise<void> {
  const { terminal } = context;
  // The working directory changes with the first try.
  const config = resolve(options.config);
  const hangUps = new HangUps();
  try {
    while (!terminal.signal.aborted) {
      try {
        return await serveUntilEnd({ ...options, config }, roles, { ...context, hangUps }, adapt);
      } catch (error) {
        if (terminal.signal.aborted && error instanceof RollcallError && error.code === 'stopping') return;
        if (!isFull(error)) throw error;
        const { loadConfig } = await import('../../config/load.ts');
        await untilRoom(adapt(loadConfig(config)), error, roles.collect, terminal);
      }
    }
  } finally {
    hangUps.end();
  }
}

/** SIGHUP, from the beginning to the end: where nobody listens, it ends the process. */
class HangUps {
  private asked = false;
  private answer: (() => void) | null = null;
  private readonly hear = () => {
    this.asked = this.answer === null;
    this.answer?.();
  };

  constructor() {
    process.on('SIGHUP', this.hear);
  }

  /** Answers those to come, and one that came before. */
  answerWith(answer: () => void): void {
    this.answer = answer;
    if (this.asked) this.hear();
  }

  end(): void {
    process.off('SIGHUP', this.hear);
  }
}

interface Roles {
  readonly collect: boolean;
  readonly schedules: boolean;
}

async function serveUntilEnd(
  options: ServeOptions,
  roles: Roles,
  { terminal, hangUps }: CliContext & { readonly hangUps: HangUps },
  adapt: NonNullable<OpenAppOptions['adapt']>,
): Promise<void> {
  await withApp(options, { terminal, makesStore: true, talkative: true, adapt }, async (opened) => {
    const { app } = opened;
    await app.start({ ...roles, renames: options.yes ?? false }).catch(explainListenError);
    hangUps.answerWith(() => void reload(opened));
    const ended = aborted(terminal.signal);
    if (options.json) printJson(terminal, { address: app.address });
    if (app.address !== null) tell(opened, terminal, `Rollcall answers at ${app.address}. Ctrl-C ends it.`);
    await ended;
    hangUps.answerWith(() => {});
    tell(opened, terminal, 'Stopping: what is in flight is finished first.');
  });
}

/** For people as it is; where the log is JSON, as a line of it, whatever is logged else. */
function tell({ log }: OpenedApp, terminal: Terminal, text: string): void {
  if (terminal.stderr.isTTY === true) note(terminal, text);
  else log.child({}, { level: 'info' }).info(text);
}

/** A mistake in the changed file is no reason to stop with what was right. */
async function reload({ reload: apply, log }: OpenedApp): Promise<void> {
  try {
    await apply();
  } catch (error) {
    log.error({ err: error }, 'The changed configuration was not applied');
  }
}

function explainListenError(error: NodeJS.ErrnoException & { readonly port?: number }): never {
  if (error.syscall !== 'listen' && error.syscall !== 'getaddrinfo') throw error;
  const message =
    error.code === 'EADDRINUSE'
      ? `Port ${error.port} is taken. Set listen.port to another one; 0 takes a free one.`
      : `Nothing can listen at listen.host and listen.port: ${error.message}.`;
  throw new RollcallError('bad_configuration', message, { cause: error });
}
