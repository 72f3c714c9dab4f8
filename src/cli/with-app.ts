import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { Logger } from 'pino';
import type { Progress } from '../../jobs/index.ts';
import type { App } from '../app.ts';
import type { Config } from '../config/config.ts';
import { RollcallError } from '../kernel/errors.ts';
import { configOption, jsonOption } from './options.ts';
import type { Terminal } from './output/terminal.ts';
import { isUnmade, noStore } from './unmade-store.ts';

/** Options of every command that works on the store. */
export interface AppCommandOptions {
  readonly config: string;
  readonly json?: boolean;
  readonly verbose?: boolean;
}

export function addAppOptions(command: Command): Command {
  return command
    .addOption(configOption())
    .addOption(jsonOption())
    .option('-v, --verbose', 'log at the configured level, not only errors');
}

export interface OpenAppOptions {
  readonly terminal: Terminal;
  /** Logs at the configured level even if nobody asks. */
  readonly talkative?: boolean;
  /** Events that are logged only if somebody asks, because the command tells them itself. */
  readonly untold?: readonly string[];
  /** Makes the store where there is none; other commands say that there is none. */
  readonly makesStore?: boolean;
  /** Adapts the configuration for this command, now and at every reload. */
  readonly adapt?: (config: Config) => Config;
  readonly onProgress?: (progress: Progress) => void;
}

export interface OpenedApp {
  readonly app: App;
  readonly config: Config;
  readonly log: Logger;
  /** Reads the configuration file again and applies it. */
  readonly reload: () => Promise<void>;
}

/** Reads the configuration, builds the service, does the work, and closes what it opened whatever happens. */
export async function withApp<T>(
  options: AppCommandOptions,
  {
    terminal,
    talkative = false,
    untold = [],
    makesStore = false,
    adapt = (config) => config,
    onProgress,
  }: OpenAppOptions,
  work: (opened: OpenedApp) => Promise<T>,
): Promise<T> {
  // Loaded only here: commands that do without the service start in half the time.
  const [{ App }, { loadConfig }, { createLogger }] = await Promise.all([
    import('../app.ts'),
    import('../config/load.ts'),
    import('./logger.ts'),
  ]);
  const file = resolve(options.config);
  const config = adapt(loadConfig(options.config));
  if (!makesStore && isUnmade(config)) throw noStore(config);
  // SQL may name files; they resolve as all paths of the configuration do.
  process.chdir(config.folder);
  const asked = talkative || options.verbose || config.logLevel === 'silent';
  const log = asked ? createLogger(config.logLevel, terminal) : createLogger('error', terminal, untold);
  const readConfig = () => adapt(loadConfig(file));
  const app = await App.create(config, { log, readConfig, ...(onProgress ? { onProgress } : {}) });
  let closing: Promise<void> | null = null;
  const close = () => {
    closing ??= app.close();
    return closing;
  };
  // It may have been interrupted while all that was loaded.
  if (terminal.signal.aborted) {
    await close();
    throw new RollcallError('stopping', 'Interrupted.');
  }
  // Work under way stops at its next safe point, and goes on at the next start.
  const interrupt = () => void close().catch((error) => log.error({ err: error }, 'Rollcall did not stop cleanly'));
  terminal.signal.addEventListener('abort', interrupt, { once: true });
  const onCrash = (error: unknown) =>
    log.fatal({ code: 'internal_error', err: error }, 'Rollcall ends because of a fault of its own');
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

/** How long a service that can't go on may take to answer what is under way and to close, in milliseconds. */
const LAST_MOMENTS = 5_000;

/** Closes in order; of a service that has failed, what does not end soon ends with the process. */
async function closeInTime(app: App, close: () => Promise<void>): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>();
  let timer: NodeJS.Timeout | undefined;
  app.failed.catch(() => {
    timer = setTimeout(resolve, LAST_MOMENTS);
  });
  await Promise.race([close(), late]).finally(() => clearTimeout(timer));
}
