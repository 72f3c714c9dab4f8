import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import type { Config } from '../../config/config.ts';
import { RollcallError } from '../../kernel/errors.ts';
import type { CliContext } from '../context.ts';
import { configOption, jsonOption, newStoreOption, tokenFileOption, withTokenFile } from '../options.ts';
import { aborted, note, print, printJson, type Terminal } from '../output/terminal.ts';
import { isFull, untilRoom } from '../until-room.ts';
import { type AppCommandOptions, type OpenAppOptions, type OpenedApp, withApp } from '../with-app.ts';

const SIGNALS = `
It stops cleanly on SIGINT or SIGTERM, and nothing accepted is lost. A second signal ends it at once.
SIGHUP, or rollcall config reload, applies a changed configuration file.
It prints a link that signs a browser in to the pages, once, within ten minutes; rollcall link prints another.
With --json it prints {"address","link"} once it is ready, null if it does not collect. Logs are JSON unless stderr is
a terminal.`;

/** For commands that run schedules, when nobody may be there to ask. */
export const renamesOption = () =>
  new Option('-y, --yes', 'end renamed audiences under their former names; they are held for approval otherwise');

export interface ServeOptions extends AppCommandOptions {
  readonly yes?: boolean;
  readonly tokenFile?: string;
}

export function addServe(program: Command, context: CliContext): void {
  program
    .command('start')
    .description('run everything in one process: collection, delivery, schedules, pages')
    .addOption(configOption())
    .addOption(tokenFileOption())
    .addOption(jsonOption())
    .addOption(renamesOption())
    .addOption(newStoreOption())
    .addHelpText('after', `\nExample:\n  $ rollcall start -c rollcall.yaml\n${SIGNALS}`)
    .action((options: ServeOptions) => serve(options, { collect: true, schedules: true }, context));
  program
    .command('serve')
    .description('run collection and delivery, no schedules')
    .addOption(configOption())
    .addOption(tokenFileOption())
    .addOption(jsonOption())
    .addOption(newStoreOption())
    .addHelpText('after', `\nExample:\n  $ rollcall serve -c rollcall.yaml\n${SIGNALS}`)
    .action((options: ServeOptions) => serve(options, { collect: true, schedules: false }, context));
}

export async function serve(
  options: ServeOptions,
  roles: Roles,
  context: CliContext,
  adaptRoles: OpenAppOptions['adapt'] = (config) => config,
): Promise<void> {
  const { terminal } = context;
  // The first try changes the working directory.
  const config = resolve(options.config);
  const tokenFile = options.tokenFile && resolve(options.tokenFile);
  const adapt = (config: Config) => withTokenFile(adaptRoles(config), tokenFile);
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

/** Handles SIGHUP from start to end: without a listener, it would end the process. */
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

  /** Call `answer` for each later SIGHUP, and for one that has arrived before. */
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
  await withApp(options, { terminal, makesStore: true, serves: true, adapt }, async (opened) => {
    const { app } = opened;
    await app.start({ ...roles, renames: options.yes ?? false }).catch(explainListenError);
    hangUps.answerWith(() => void reload(opened));
    const ended = aborted(terminal.signal);
    const link = app.signInLink();
    if (options.json) printJson(terminal, { address: app.address, link });
    else if (link !== null) print(terminal, `Open ${link} within ten minutes to sign in, once.`);
    if (app.address !== null) tell(opened, terminal, `Rollcall answers at ${app.address}. Ctrl-C ends it.`);
    await ended;
    hangUps.answerWith(() => {});
    tell(opened, terminal, 'Stopping: finishing what is in flight.');
  });
}

/** Print a note on a terminal, or log it as a JSON line at any log level. */
function tell({ log }: OpenedApp, terminal: Terminal, text: string): void {
  if (terminal.stderr.isTTY === true) note(terminal, text);
  else log.child({}, { level: 'info' }).info(text);
}

/** A mistake in the changed file is logged, and the old configuration stays in force. */
async function reload({ reload: apply, log }: OpenedApp): Promise<void> {
  try {
    await apply();
  } catch (error) {
    log.error({ err: error }, 'The changed configuration was not applied; the previous one stays in force');
  }
}

function explainListenError(error: NodeJS.ErrnoException & { readonly port?: number }): never {
  if (error.syscall !== 'listen' && error.syscall !== 'getaddrinfo') throw error;
  if (error.code === 'EADDRINUSE') {
    const message = `Port ${error.port} is taken. Set listen.port to another one; 0 takes a free one.`;
    throw new RollcallError('port_taken', message, { cause: error });
  }
  const message = `Nothing can listen at listen.host and listen.port: ${error.message}.`;
  throw new RollcallError('bad_configuration', message, { cause: error });
}
