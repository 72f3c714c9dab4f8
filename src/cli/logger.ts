import pino, { type Logger } from 'pino';
import pretty from 'pino-pretty';
import type { Terminal } from './terminal.ts';

/** Logs to stderr: lines for people on a terminal, JSON for machines. */
export function createLogger(level: string, { stderr }: Terminal): Logger {
  const options = { level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
  if (stderr.isTTY !== true) return pino(options, stderr);
  const stream = pretty({ destination: stderr, translateTime: 'SYS:HH:MM:ss', ignore: 'stage', singleLine: true });
  return pino(options, stream);
}
