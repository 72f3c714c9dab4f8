import * as z from 'zod';
import { RollcallError } from '../../kernel/errors.ts';
import { type ApiRoutes, ordering, reading } from './route.ts';

const summary = z.object({
  kept: z.boolean().describe('False where the configuration has no `eventLog`; then the rest is null.'),
  events: z.int().nullable().describe('All of them, those not sealed yet included.'),
  bytes: z.int().nullable().describe('On disk.'),
  from: z.iso.date().nullable().describe('First day of receipt.'),
  to: z.iso.date().nullable().describe('Last day of receipt.'),
  files: z.int().nullable().describe('Null where the log is a table of Postgres.'),
  unsealed: z.int().nullable().describe('Events that wait to be sealed into a file.'),
});

const verified = z.object({
  files: z.int(),
  faults: z
    .array(z.object({ file: z.string(), fault: z.string() }))
    .describe('Files that are not as the store has them.'),
});

type Summary = Omit<z.input<typeof summary>, 'kept'>;

export interface EventLogApiParts {
  readonly eventLog: {
    /** Null if no log is kept. */
    summary(): Promise<Summary | null>;
    /** Reads every file; null if the log has no files. */
    verify(): Promise<z.input<typeof verified> | null>;
  };
}

const NONE = { events: null, bytes: null, from: null, to: null, files: null, unsealed: null };
const tag = 'Event log';

export function eventLogRoutes(routes: ApiRoutes, { eventLog }: EventLogApiParts): void {
  let verifying: ReturnType<EventLogApiParts['eventLog']['verify']> | null = null;
  reading(routes, '/event-log', {
    summary: 'Size and span of the event log',
    tag,
    answer: summary,
    handle: async () => {
      const found = await eventLog.summary();
      return { kept: found !== null, ...(found ?? NONE) };
    },
  });
  ordering(routes, '/event-log/verify', {
    summary: 'Read every file of the event log, and say what is wrong',
    description: 'It takes as long as reading the log does. Requests in the meantime share the answer.',
    tag,
    answer: verified,
    deed: () => ({ action: 'event-log.verify', target: null }),
    handle: async () => {
      verifying ??= eventLog.verify().finally(() => {
        verifying = null;
      });
      const found = await verifying;
      if (!found)
        throw new RollcallError('not_found', 'There are no files to verify: no event log is kept, or Postgres has it.');
      return found;
    },
  });
}
