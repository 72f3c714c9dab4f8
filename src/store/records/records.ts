import type { Records } from '../port.ts';
import { alerts, currentAlerts, pruneAlerts, saveAlerts } from './alerts.ts';
import { attemptPage, attempts } from './attempts.ts';
import {
  admit,
  audience,
  audiences,
  forgetAudience,
  lastSequence,
  pauseAudience,
  pausedAudiences,
  resumeAudience,
  takeGeneration,
} from './audiences.ts';
import { audits, beginAudit, endAudit, pruneAudits } from './audit.ts';
import { trustsClocks } from './clock-trust.ts';
import { deletions, excluded, suppress } from './deletions.ts';
import { discardPage, discards, forgetDiscards, saveDiscards } from './discards.ts';
import { backlog, endpoints, markEndpoint, oldestUntried } from './endpoints.ts';
import { countOrphans, orphans, owners, publish, rosters } from './fleet.ts';
import { addHistory, history, historySums, pruneHistory } from './history.ts';
import { boundDelivered } from './kept-messages.ts';
import { releaseLease, renewLease, takeLease } from './leases.ts';
import { deadLetterPage, deadLetters, hasUndelivered } from './letters.ts';
import {
  addLiveAudience,
  commitLive,
  holdLive,
  liveAudiences,
  liveBehind,
  liveCauses,
  liveChangedBy,
  liveCounts,
  liveMembers,
  livePage,
  livePast,
  pruneLive,
} from './live-members.ts';
import {
  addToLivePlan,
  advanceLive,
  cutLivePlan,
  dropLive,
  dropLivePlan,
  forgetLive,
  livePlan,
  livePlanRows,
  livePlansOf,
  saveLivePlan,
  tellLivePlan,
} from './live-plans.ts';
import {
  askLive,
  beginLive,
  clearLive,
  dropLiveSource,
  endLive,
  fillLive,
  liveAround,
  liveDue,
  liveFlagged,
  liveNamed,
  liveNext,
  liveOld,
  livePersons,
  liveRows,
  liveRowsOf,
  liveShared,
  liveSource,
  liveSources,
  liveStrays,
  rebuildLive,
  renewLive,
  rewriteLive,
  seenLive,
} from './live-state.ts';
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
import { lastSuccesses, newestRuns, run, runProgress, runs, saveRun } from './runs.ts';
import type { Session } from './session.ts';

type Over<V> = {
  readonly [N in keyof V]: V[N] extends (...given: infer A) => infer R ? (session: Session, ...given: A) => R : never;
};

/** Every verb of the records, over a session of either database. */
const RECORDS = {
  ...{ takeLease, renewLease, releaseLease, trustsClocks },
  ...{ pausedAudiences, pauseAudience, resumeAudience },
  ...{ audience, audiences, forgetAudience, lastSequence, takeGeneration, admit },
  ...{ saveRun, run, runs, newestRuns, runProgress },
  ...{ regulations, confirmNotices, confirmed },
  ...{ saveRegulation, stripRegulation, regulation, openRegulations, deletions, excluded, told, suppress },
  hashKey: async ({ hashKey }) => hashKey,
  ...{ endpoints, markEndpoint, backlog, attempts, attemptPage, deadLetters, deadLetterPage, hasUndelivered },
  ...{ messagePage, message, pruneDelivered, boundDelivered },
  ...{ saveDiscards, discards, discardPage, forgetDiscards },
  ...{ owners, publish, rosters, orphans, countOrphans },
  ...{ lastSuccesses, oldestUntried },
  ...{ addHistory, history, historySums, pruneHistory },
  ...{ beginAudit, endAudit, audits, pruneAudits },
  ...{ alerts, currentAlerts, saveAlerts, pruneAlerts },
  pruneRecords,
  ...{
    liveSource,
    liveSources,
    liveNext,
    askLive,
    beginLive,
    clearLive,
    fillLive,
    endLive,
    liveRows,
    liveRowsOf,
    livePersons,
    liveDue,
    liveFlagged,
    liveNamed,
    liveShared,
    liveOld,
    liveStrays,
    liveAround,
    rebuildLive,
    renewLive,
    seenLive,
    dropLiveSource,
    rewriteLive,
    liveMembers,
    commitLive,
    liveAudiences,
    liveBehind,
    addLiveAudience,
    holdLive,
    liveCounts,
    livePage,
  },
  ...{ livePast, liveCauses, liveChangedBy, pruneLive, saveLivePlan, livePlan, livePlansOf, addToLivePlan },
  ...{ livePlanRows, cutLivePlan, dropLivePlan, tellLivePlan, advanceLive, dropLive, forgetLive },
} satisfies Over<Records>;

export type RecordVerb = keyof Records;

/** Verbs that also work on damaged data, so that people can see what there is. */
export const READING_RECORDS: ReadonlySet<RecordVerb> = new Set<RecordVerb>([
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
    'history',
    'historySums',
    'lastSuccesses',
    'message',
    'messagePage',
    'oldestUntried',
    'openRegulations',
    'regulations',
    'confirmed',
    'pausedAudiences',
  ] as const),
  ...(['orphans', 'regulation', 'rosters', 'run', 'runProgress', 'runs', 'newestRuns'] as const),
]);

/** The records of a store that performs verbs by their names. */
export function recordsBy(perform: (verb: RecordVerb, given: readonly unknown[]) => Promise<unknown>): Records {
  const bound = Object.keys(RECORDS).map((verb) => [
    verb,
    (...given: readonly unknown[]) => perform(verb as RecordVerb, given),
  ]);
  return Object.fromEntries(bound) as Records;
}

/** Performs a verb that is known by its name only. */
export function performRecord(session: Session, verb: RecordVerb, given: readonly unknown[]): Promise<unknown> {
  const work = RECORDS[verb] as (session: Session, ...given: readonly unknown[]) => Promise<unknown>;
  return work(session, ...given);
}
