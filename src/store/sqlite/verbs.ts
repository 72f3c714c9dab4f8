import { accept } from './accept.ts';
import { attempts, prune } from './attempts.ts';
import { claim } from './claim.ts';
import { servedSince } from './clock.ts';
import type { Connection } from './connection.ts';
import { bury, deadLetters, drop, expire, replay, resend, restNotices } from './dead-letters.ts';
import { deletions, excluded, hashKey } from './deletions.ts';
import { backlog, endpoints, markEndpoint } from './endpoints.ts';
import { countOrphans, orphans, publish, rosters } from './fleet.ts';
import { admit, takeGeneration } from './generations.ts';
import { requeue } from './held-out.ts';
import { heartbeat, join, leave, owners, releaseLease, renewLease, takeLease } from './leases.ts';
import { erase, openRegulations, regulation, saveRegulation, stripRegulation, suppress, told } from './regulations.ts';
import {
  audience,
  audiences,
  forgetAudience,
  lastSequence,
  pruneRecords,
  run,
  runProgress,
  runs,
  saveRun,
} from './runs.ts';
import { begin, rescue, settle } from './settle.ts';

/** What the store's thread can be asked to do, each within the transaction that it opens. */
export const verbs = {
  accept,
  admit,
  attempts,
  audience,
  audiences,
  backlog,
  begin,
  bury,
  claim,
  countOrphans,
  deadLetters,
  deletions,
  drop,
  endpoints,
  erase,
  excluded,
  expire,
  restNotices,
  forgetAudience,
  hashKey,
  heartbeat,
  join,
  lastSequence,
  leave,
  markEndpoint,
  openRegulations,
  orphans,
  owners,
  ping: () => undefined,
  prune,
  pruneRecords,
  publish,
  regulation,
  releaseLease,
  renewLease,
  replay,
  resend,
  requeue,
  rescue,
  rosters,
  run,
  runProgress,
  runs,
  saveRegulation,
  saveRun,
  servedSince,
  settle,
  stripRegulation,
  suppress,
  takeGeneration,
  takeLease,
  told,
} satisfies Record<string, (db: Connection, now: number, args: never) => unknown>;

export type Verbs = typeof verbs;
export type VerbName = keyof Verbs;
export type VerbArguments<V extends VerbName> =
  Parameters<Verbs[V]> extends [unknown, unknown, infer A] ? A : undefined;
export type VerbResult<V extends VerbName> = ReturnType<Verbs[V]>;

/** What a damaged file is still asked, so that people see what there is. */
export const READING: ReadonlySet<VerbName> = new Set<VerbName>([
  ...(['attempts', 'audience', 'audiences', 'backlog', 'deadLetters', 'endpoints', 'openRegulations'] as const),
  ...(['orphans', 'regulation', 'rosters', 'run', 'runProgress', 'runs'] as const),
]);

export interface Operation {
  readonly verb: VerbName;
  readonly now: number;
  readonly args: unknown;
}

/** What became of an operation; a failure crosses threads as code and message. */
export type OperationResult = { readonly value: unknown } | { readonly code: string; readonly message: string };
