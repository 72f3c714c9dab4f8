import type { Records } from '../../src/store/port.ts';

const LIMIT = 9;
const STEP = { subject: 'destination', name: 'd1', step: 'minute', since: 0, until: 60_000, limit: LIMIT } as const;

/** Queries of pages, metrics and the history, made each second or minute: none may take longer where more is stored. */
export const LOOKS: Readonly<Record<string, (records: Records) => Promise<unknown>>> = {
  backlog: (records) => records.backlog(),
  endpoints: (records) => records.endpoints(),
  'what a worker polls for': (records) => records.poll(),
  'what waits longest': (records) => records.oldestUntried(),
  orphans: (records) => records.orphans(),
  'last successes': (records) => records.lastSuccesses(),
  'newest runs of audiences': (records) => records.newestRuns(['a', 'b'], LIMIT),
  runs: (records) => records.runs({ limit: LIMIT }),
  'runs of one': (records) => records.runs({ key: 'a', limit: LIMIT }),
  'held runs': (records) => records.runs({ states: ['held'], limit: LIMIT }),
  attempts: (records) => records.attemptPage({ limit: LIMIT }, null),
  'attempts of a user': (records) => records.attemptPage({ userId: 'u', limit: LIMIT }, null),
  'dead letters': (records) => records.deadLetterPage({ limit: LIMIT }, true),
  'dead letters of a user': (records) => records.deadLetterPage({ userId: 'u', limit: LIMIT }, true),
  messages: (records) => records.messagePage({ limit: LIMIT }, null),
  'messages of a user': (records) => records.messagePage({ userId: 'u', limit: LIMIT }, null),
  history: (records) => records.history(STEP),
  'sums of history': (records) => records.historySums('destination', 'minute', 0),
  discards: (records) => records.discards({ limit: LIMIT }),
  audits: (records) => records.audits({ limit: LIMIT }),
  alerts: (records) => records.alerts({ limit: LIMIT }),
  regulations: (records) => records.regulations({ limit: LIMIT }),
  confirmations: (records) => records.confirmed(['r']),
};

/** Tables that grow with what passes. */
export const GROWING = [
  'delivery',
  'dead_letter',
  'delivered',
  'attempt',
  'run',
  'rollup',
  'notice_confirmation',
] as const;
