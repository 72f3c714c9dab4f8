import type { Config } from '../config/config.ts';
import { systemClock } from '../kernel/clock.ts';
import { RollcallError } from '../kernel/errors.ts';
import { openStore } from '../store/open.ts';
import type { Terminal } from './output/terminal.ts';

const TRY_EVERY = 2_000;

export function isFull(error: unknown): error is RollcallError {
  return error instanceof RollcallError && error.code === 'store_full';
}

/**
 * Wait until the store can be opened, or the command is interrupted. If `collects`, ask clients to retry in the meantime.
 */
export async function untilRoom(
  config: Config,
  failure: RollcallError,
  collects: boolean,
  terminal: Terminal,
): Promise<void> {
  const { signal } = terminal;
  const { createLogger } = await import('./logger.ts');
  const log = createLogger(config.logLevel, terminal);
  log.error({ code: failure.code, err: failure }, 'The disk of the store is full; Rollcall starts once there is room');
  const { createHttpServer, startListening } = await import('../http/server.ts');
  const refuse = async () => {
    throw failure;
  };
  const server = createHttpServer(log, { alive: () => {}, ready: refuse });
  // Before any body is read.
  server.all('/*', { onRequest: refuse }, refuse);
  if (collects) await startListening(server, config.listen);
  try {
    do await systemClock.sleep(TRY_EVERY, signal).catch(() => {});
    while (!signal.aborted && !(await canOpen(config)));
  } finally {
    await server.close();
  }
}

async function canOpen(config: Config): Promise<boolean> {
  try {
    await (await openStore(config.store, systemClock)).close();
    return true;
  } catch (error) {
    if (isFull(error)) return false;
    throw error;
  }
}
