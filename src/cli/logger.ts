import { createRequire } from 'node:module';
import { Writable } from 'node:stream';
import pino, { type Logger, type LoggerOptions } from 'pino';
import { RollcallError } from '../kernel/errors.ts';
import { escaped, type Terminal } from './output/terminal.ts';

/**
 * Log to stderr: lines for people on a terminal, JSON otherwise.
 *
 * @param untold - events to leave out
 */
export function createLogger(level: string, { stderr }: Terminal, untold: readonly string[] = []): Logger {
  const isRead = stderr.isTTY === true;
  const options: LoggerOptions = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    serializers: { err: withoutNeedlessStack },
    hooks: {
      logMethod(parameters, log) {
        const [fields] = parameters as readonly unknown[];
        const event = fields !== null && typeof fields === 'object' && 'event' in fields ? fields.event : null;
        if (typeof event === 'string' && untold.includes(event)) return;
        if (isRead && event === 'sync_run') parameters.splice(0, 1, inShort(fields as Record<string, unknown>));
        log.apply(this, parameters);
      },
    },
  };
  if (!isRead) return pino(options, stderr);
  const destination = new Writable({
    decodeStrings: false,
    write: (lines: string, _, done) => {
      stderr.write(lines);
      done();
    },
  });
  // Loaded only here: it takes 35 ms, which services with JSON logs should not spend.
  const pretty: typeof import('pino-pretty') = createRequire(import.meta.url)('pino-pretty');
  const lines = pretty({ destination, translateTime: 'SYS:HH:MM:ss', ignore: 'stage', singleLine: true });
  // Before it adds its colours.
  return pino(options, { write: (line) => lines.write(withoutControls(line)) });
}

/** The fields of a run that people want to see. `rollcall runs RUN` has the rest. */
function inShort({
  event,
  id,
  members,
  entered,
  exited,
  changed,
  sent,
  code,
  reason,
}: Record<string, unknown>): object {
  const failure = code === null ? {} : { code };
  return { event, id, members, entered, exited, changed, sent, ...failure, ...(reason === null ? {} : { reason }) };
}

/** A line of JSON that has control characters as text. Line breaks stay: errors have several lines. */
function withoutControls(line: string): string {
  return line.replaceAll(/\\.|[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, (found) => {
    if (!found.startsWith('\\')) return `\\${escaped(found)}`;
    return '\\n\\t\\"\\\\'.includes(found) ? found : `\\${found}`;
  });
}

/** Coded errors explain themselves: omit the stack. */
function withoutNeedlessStack(error: Error): object {
  const shown = pino.stdSerializers.err(error);
  if (!(error instanceof RollcallError) || error.code === 'internal_error') return shown;
  return { ...shown, stack: undefined };
}
