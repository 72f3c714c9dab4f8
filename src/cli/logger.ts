import { Writable } from 'node:stream';
import pino, { type Logger, type LoggerOptions } from 'pino';
import pretty from 'pino-pretty';
import { RollcallError } from '../errors.ts';
import { forScreen, type Terminal } from './terminal.ts';

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
    serializers: { err: withoutNeedlessStack },
    hooks: {
      logMethod(parameters, log) {
        const [fields] = parameters as readonly unknown[];
        const event = fields !== null && typeof fields === 'object' && 'event' in fields ? fields.event : null;
        if (typeof event !== 'string' || !untold.includes(event)) log.apply(this, parameters);
      },
    },
  };
  if (stderr.isTTY !== true) return pino(options, stderr);
  const destination = new Writable({
    decodeStrings: false,
    write: (lines: string, _, done) => {
      stderr.write(forScreen(stderr, lines));
      done();
    },
  });
  return pino(options, pretty({ destination, translateTime: 'SYS:HH:MM:ss', ignore: 'stage', singleLine: true }));
}

/** What has a code says itself what to do; where it was thrown helps nobody. */
function withoutNeedlessStack(error: Error): object {
  const shown = pino.stdSerializers.err(error);
  if (!(error instanceof RollcallError) || error.code === 'internal_error') return shown;
  return { ...shown, stack: undefined };
}
