import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { Logger } from 'pino';
import type { Progress } from '../../jobs/index.ts';
import type { App } from '../app.ts';
import type { Config } from '../config/config.ts';
import { RollcallError } from '../kernel/errors.ts';
import { refuseFormer } from './former-store.ts';
import { configOption, jsonOption } from './options.ts';
import { note, type Terminal } from './output/terminal.ts';
import { forgetLostStore, isUnmade, noStore } from './unmade-store.ts';

export interface AppCommandOptions {
  readonly config: string;
  readonly json?: boolean;
  readonly verbose?: boolean;
  /** Begins with an empty store where one was lost. */
  readonly newStore?: boolean;
}

export function addAppOptions(command: Command): Command {
  return command
    .addOption(configOption())
    .addOption(jsonOption())
    .option('-v, --verbose', 'log at the configured level, not only errors');
}

export interface OpenAppOptions {
  readonly terminal: Terminal;
  /** Runs until it is stopped: a service, which logs at the configured level even without --verbose. */
  readonly serves?: boolean;
  /** Events that are logged only with --verbose, because the command reports them itself. */
  readonly untold?: readonly string[];
  /** Creates a missing store. Other commands fail. */
  readonly makesStore?: boolean;
  /** True if variables of the configuration may be unset. */
  readonly mayLack?: boolean;
  /** Adapts the configuration for this command, at the start and at every reload. */
  readonly adapt?: (config: Config) => Config;
  readonly onProgress?: (progress: Progress) => void;
}

export interface OpenedApp {
  readonly app: App;
  readonly config: Config;
  readonly log: Logger;
  readonly reload: () => Promise<void>;
}

/** Read the configuration, build the service, do the work, and always close what was opened. */
export async function withApp<T>(
  options: AppCommandOptions,
  {
    terminal,
    serves = false,
    untold = [],
    makesStore = false,
    mayLack = false,
    adapt = (config) => config,
    onProgress,
  }: OpenAppOptions,
  work: (opened: OpenedApp) => Promise<T>,
): Promise<T> {
  // Loaded only here: commands that need no service start in half the time.
  const [{ App }, { loadConfig, loadWithoutEnv }, { createLogger }] = await Promise.all([
    import('../app.ts'),
    import('../config/load.ts'),
    import('./logger.ts'),
  ]);
  const file = resolve(options.config);
  const config = adapt(mayLack ? loadWithoutEnv(options.config) : loadConfig(options.config));
  letGroupRead(config);
  if (options.newStore) forgetLostStore(config);
  else if (isUnmade(config)) {
    if (!makesStore) throw noStore(config);
    await refuseFormer(config, 'rollcall start');
  }
  // Files named in SQL resolve as all paths of the configuration do.
  process.chdir(config.folder);
  const asked = serves || options.verbose || config.logLevel === 'silent';
  const log = asked ? createLogger(config.logLevel, terminal) : createLogger('error', terminal, untold);
  const readConfig = () => adapt(loadConfig(file));
  const app = await App.create(config, {
    ...{ log, readConfig },
    ...(onProgress ? { onProgress } : {}),
    ...(serves ? {} : { onWait: (message: string) => note(terminal, message) }),
  });
  let closing: Promise<void> | null = null;
  const close = () => {
    closing ??= app.close();
    return closing;
  };
  // The signal may have arrived while the modules were loading.
  if (terminal.signal.aborted) {
    await close();
    throw new RollcallError('stopping', 'Interrupted.');
  }
  // Work under way stops at its next safe point and continues at the next start.
  const interrupt = () => void close().catch((error) => log.error({ err: error }, 'Rollcall did not stop cleanly'));
  terminal.signal.addEventListener('abort', interrupt, { once: true });
  const onCrash = (error: unknown) =>
    log.fatal({ code: 'internal_error', err: error }, 'Rollcall ends because of an internal error');
  process.on('uncaughtExceptionMonitor', onCrash);
  const working = work({ app, config, log, reload: async () => app.reload(readConfig()) });
  try {
    return await Promise.race([working, app.failed]);
  } finally {
    terminal.signal.removeEventListener('abort', interrupt);
    await closeInTime(app, close);
    process.off('uncaughtExceptionMonitor', onCrash);
  }
}

/** Make files that their group may read, if the configuration says so. */
export function letGroupRead({ files }: Pick<Config, 'files'>): void {
  if (files.group) process.umask(0o027);
}

/** Milliseconds that a failed service gets to answer open requests and close. */
const LAST_MOMENTS = 5_000;

/**
 * Close in order, but do not wait for long if the service has failed.
 *
 * @throws RollcallError what the service failed with, also during the close
 */
async function closeInTime(app: App, close: () => Promise<void>): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>();
  let timer: NodeJS.Timeout | undefined;
  let failure: unknown = null;
  app.failed.catch((error) => {
    failure = error;
    timer = setTimeout(resolve, LAST_MOMENTS);
  });
  await Promise.race([close(), late]).finally(() => clearTimeout(timer));
  if (failure !== null) throw failure;
}
