import * as z from 'zod';
import { RUN_STATES } from '../../store/port.ts';
import { reasonCounts, time } from './shapes.ts';

export const run = z.object({
  run: z.string(),
  key: z.string(),
  kind: z.enum(['audience', 'trait']),
  first: z.boolean(),
  members: z.int(),
  entered: z.int(),
  exited: z.int(),
  invalid: z.int(),
  duplicates: z.int(),
  held: z.boolean(),
  sent: z.int().describe('Messages accepted so far.'),
  startedAt: time,
  ms: z.number().nullable().describe('How long it worked; null while it does.'),
  action: z.enum(['sync', 'resync', 'retire', 'backfill', 'withdraw']),
  state: z.enum(RUN_STATES),
  phase: z.string(),
  code: z.string().nullable(),
  reason: z.string().nullable().describe('Why it was held, or what failed.'),
  changed: z.int(),
  reasons: reasonCounts,
  skipped: z.array(z.string()).describe('Destinations that got none of it, by `backfill: skip`.'),
  before: z.int().nullable().describe('Members before it.'),
  definitionHash: z.string(),
  asOf: time,
});

export const deliveries = z.object({
  total: z.int(),
  delivered: z.int(),
  superseded: z.int(),
  dead: z.int(),
  waiting: z.int(),
});
