import type { Records } from '../port.ts';
import { alerts, currentAlerts, pruneAlerts, saveAlerts } from './alerts.ts';
import { attemptPage, attempts } from './attempts.ts';
import {
  admit,
  audience,
  audiences,
  forgetAudience,
  lastSequence,
  moveAudience,
  pauseAudience,
  pausedAudiences,
  resumeAudience,
  takeGeneration,
} from './audiences.ts';
import { audits, beginAudit, endAudit, pruneAudits } from './audit.ts';
import { trustsClocks } from './clock-trust.ts';
import { deletedSince, deletions, excluded, setUnlogged, suppress } from './deletions.ts';
import { discardPage, discards, saveDiscards } from './discards.ts';
import { backlog, endpoints, markEndpoint, oldestUntried, poll } from './endpoints.ts';
import { countOrphans, orphans, owners, publish, rosters } from './fleet.ts';
import { addHistory, history, historySums, pruneHistory, sizes } from './history.ts';
import { boundDelivered } from './kept-messages.ts';
import { releaseLease, renewLease, takeLease } from './leases.ts';
import { deadLetterPage, deadLetters, hasUndelivered } from './letters.ts';
import { message, messagePage, pruneDelivered } from './messages.ts';
import { pruneRecords } from './prune-records.ts';
import {
  confirmed,
  confirmNotices,
  openRegulations,
  regulation,
  regulations,
  saveRegulation,
  stripRegulation,
  told,
} from './regulations.ts';
import { forgetHistory, historySince, lastSuccesses, newestRuns, run, runProgress, runs, saveRun } from './runs.ts';
import { addSend, endSend, send, sends } from './sends.ts';
import type { OverSession } from './session.ts';
import { isSpent, spendPass } from './spent-passes.ts';
import { forgetTexts } from './texts.ts';
import { saidIds } from './traces.ts';

export const RECORDS = {
  ...{ takeLease, renewLease, releaseLease, trustsClocks },
  ...{ pausedAudiences, pauseAudience, resumeAudience },
  ...{ audience, audiences, moveAudience, forgetAudience, lastSequence, takeGeneration, admit },
  ...{ saveRun, run, runs, newestRuns, runProgress, historySince, forgetHistory },
  ...{ addSend, endSend, send, sends },
  ...{ regulations, confirmNotices, confirmed },
  ...{
    saveRegulation,
    stripRegulation,
    regulation,
    openRegulations,
    deletions,
    deletedSince,
    excluded,
    setUnlogged,
    told,
  },
  ...{ suppress, saidIds },
  hashKey: async ({ hashKey }) => hashKey,
  ...{ endpoints, markEndpoint, backlog, poll, attempts, attemptPage, deadLetters, deadLetterPage, hasUndelivered },
  ...{ messagePage, message, pruneDelivered, boundDelivered },
  ...{ saveDiscards, discards, discardPage, forgetTexts },
  ...{ owners, publish, rosters, orphans, countOrphans },
  ...{ lastSuccesses, oldestUntried },
  ...{ addHistory, history, historySums, sizes, pruneHistory },
  ...{ beginAudit, endAudit, audits, pruneAudits },
  ...{ spendPass, isSpent },
  ...{ alerts, currentAlerts, saveAlerts, pruneAlerts },
  pruneRecords,
} satisfies OverSession<Records>;

/** Verbs that only read: they need no sync, and work on damaged data too, so that people can see what is left. */
export const READING_RECORDS: ReadonlySet<string> = new Set<keyof Records>([
  ...([
    'alerts',
    'attemptPage',
    'attempts',
    'audits',
    'audience',
    'audiences',
    'backlog',
    'deadLetterPage',
    'deadLetters',
    'discardPage',
    'discards',
    'endpoints',
    'excluded',
    'history',
    'historySums',
    'sizes',
    'isSpent',
    'lastSuccesses',
    'message',
    'messagePage',
    'oldestUntried',
    'openRegulations',
    'regulations',
    'confirmed',
    'pausedAudiences',
  ] as const),
  ...([
    'orphans',
    'regulation',
    'rosters',
    'run',
    'runProgress',
    'runs',
    'newestRuns',
    'historySince',
    'send',
    'sends',
  ] as const),
]);
