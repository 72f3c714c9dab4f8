import pino, { type Logger, type LoggerOptions } from 'pino';
import pretty from 'pino-pretty';
import type { Terminal } from './terminal.ts';

/**
 * Logs to stderr: lines for people on a terminal, JSON for machines.
 *
 * @param untold - events that are left out
 */
export function createLogger(level: string, { stderr }: Terminal, untold: readonly string[] = []): Logger {
  const options: LoggerOptions = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    hooks: {
      logMethod(parameters, log) {
        const [fields] = parameters as readonly unknown[];
        const event = fields !== null && typeof fields === 'object' && 'event' in fields ? fields.event : null;
        if (typeof event !== 'string' || !untold.includes(event)) log.apply(this, parameters);
      },
    },
  };
  if (stderr.isTTY !== true) return pino(options, stderr);
  const stream = pretty({ destination: stderr, translateTime: 'SYS:HH:MM:ss', ignore: 'stage', singleLine: true });
  return pino(options, stream);
}
