import type { RollcallError } from '../../src/kernel/errors.ts';
import type { Records, Run } from '../../src/store/port.ts';
import type { JobLog, Subject } from './run-context.ts';

/** Error codes that are not failures of a run. */
const QUIET = new Set(['stopping', 'run_in_progress', 'unknown_run', 'older_configuration']);

export interface RunLog {
  held(run: Run): void;
  failed(subject: Subject, error: RollcallError): Promise<void>;
  overdue(key: string, message: string): void;
  done(run: Run): void;
}

export const EMPTY_AT_FIRST =
  'the first sync found nobody: check that the SQL is right, and that the user of its engine sees the rows';

/** True for a first sync whose result is empty, which most often is a mistake. */
export function isEmptyAtFirst({ first, state, action, members }: Pick<Run, 'first' | 'state' | 'action' | 'members'>) {
  return first && state === 'done' && action === 'sync' && members === 0;
}

export function createRunLog(store: Pick<Records, 'runs'>, log: JobLog): RunLog {
  return {
    held: ({ key, id, reason }) => log.warn({ event: 'sync_held', key, run: id, code: 'run_held' }, reason ?? 'held'),
    async failed({ key }, { code, message }) {
      if (QUIET.has(code)) return;
      const [last] = await store.runs({ key, limit: 1 }).catch(() => []);
      log.error({ event: 'sync_failed', key, run: last?.code === code ? last.id : undefined, code }, message);
    },
    done(run) {
      if (isEmptyAtFirst(run)) log.warn({ event: 'sync_empty', key: run.key, run: run.id, code: null }, EMPTY_AT_FIRST);
    },
    overdue: (key, message) => log.warn({ event: 'sync_overdue', key, code: null }, message),
  };
}
