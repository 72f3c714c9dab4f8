import type { Clock } from '../../src/kernel/clock.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import { suggestion } from '../../src/kernel/spelling.ts';
import type { Records, Run, RunState } from '../../src/store/port.ts';
import { holdRejected, whileHeld } from '../live/on-hold.ts';
import type { Subjects } from '../run/audience-subjects.ts';
import { approveRun, performOrder } from '../run/run.ts';
import type { LeasedContext, OnRun, RunContext, Subject, SyncOrder } from '../run/run-context.ts';
import { PATIENCE, type Runner, type SyncReport } from '../run/runner.ts';
import { rejectRun, unfinishedRuns } from '../run/unfinished-runs.ts';

interface Request {
  readonly action: SyncOrder['action'];
  /** The run's time; by default now. */
  readonly now?: number | undefined;
  readonly tick?: number;
  /** True if a person agreed to a rename. */
  readonly renames?: boolean | undefined;
  /** Milliseconds to wait for a run of another process. */
  readonly patience?: number;
}

/** An order that waits for its turn. */
export interface WaitingOrder {
  readonly action: SyncOrder['action'];
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** Carries out the orders of people and schedules under the lease, and reports them. */
export interface Orders {
  /** Joins the same order of a person that still waits for its turn. */
  order(subject: Subject, request: Request): Promise<SyncReport>;
  /** The order of this audience that waits in this process, if any. */
  waiting(key: string): WaitingOrder | null;
  /** Continues a held run. @throws RollcallError `unknown_run` */
  approve(run: string): Promise<SyncReport>;
  /** Discards a held run, or the rest of one that can't be finished. @throws RollcallError `unknown_run` */
  reject(run: string): Promise<SyncReport>;
}

type Asked = Omit<SyncOrder, 'asOf'> & Pick<Request, 'now'>;
type Decision = (context: RunContext, run: Run, onRun: OnRun) => Promise<void>;

interface OrdersOptions {
  readonly store: Pick<Records, 'run' | 'runs'>;
  readonly clock: Clock;
  readonly runner: Runner;
  readonly subjects: Subjects;
}

export function createOrders({ store, clock, runner, subjects }: OrdersOptions): Orders {
  /** Orders for now that have not begun, by action and key. */
  const queue = new Map<string, WaitingOrder & { readonly key: string; readonly report: Promise<SyncReport> }>();

  /** Performs an order under its lease, recorded as run by this configuration. */
  function perform(
    subject: Subject,
    { now, ...given }: Asked,
    onRun: OnRun,
    patience: number,
    begun: () => void,
  ): Promise<void> {
    const work = async (context: LeasedContext) => {
      begun();
      await runner.generations.check(subject.key, context.lease.fence);
      // Only now: an order that waited for the lease must not compute as of a time before that of the run ahead of it.
      const order = { ...given, asOf: now ?? clock.now() };
      await whileHeld(context, { isForSome: order.action === 'settle' }, () => performOrder(context, order, onRun));
    };
    return runner.underLease(subject, work, patience);
  }

  async function formerSelf(subject: Subject): Promise<Subject | null> {
    const former = await subjects.formerSelf(subject);
    if (former) await runner.generations.check(former.key, null);
    return former;
  }

  /** Carries out a decision about a run, in the engine that it was staged in. */
  async function decide(id: string, states: readonly RunState[], work: Decision): Promise<SyncReport> {
    const asked = await store.run(id);
    if (!asked) throw unknownRun(id, await store.runs({ states, limit: LISTED }));
    if (!states.includes(asked.state)) throw tooLate(asked, states);
    const subject = await subjects.findWhereItLies(asked.key);
    return runner.report(subject, (onRun) =>
      runner.underLease(subject, async (context) => {
        const run = (await unfinishedRuns(context)).find((unfinished) => unfinished.id === id);
        if (!run || !states.includes(run.state)) throw tooLate((await store.run(id)) ?? asked, states);
        const opened = await context.open();
        await whileHeld(context, { isDecided: true }, () => work(opened, run, onRun)).finally(() =>
          opened.engine.close(),
        );
      }),
    );
  }

  return {
    order(subject, { action, now, tick, renames, patience = PATIENCE }) {
      const place = `${action} ${subject.key} ${renames ?? false}`;
      const isForNow = now === undefined && tick === undefined && patience === PATIENCE;
      const same = isForNow ? queue.get(place) : undefined;
      if (same) return same.report;
      const begun = () => void (isForNow && queue.delete(place));
      const work = async (onRun: OnRun) => {
        const asked = { action, now, tick, renames };
        if (action !== 'sync' && action !== 'resync') return perform(subject, asked, onRun, patience, begun);
        const former = () => formerSelf(subject);
        // Also before there is a run, so that an older configuration doesn't record a failed one.
        await former();
        await perform(subject, { ...asked, former }, onRun, patience, begun);
      };
      const report = runner.report(subject, work).finally(begun);
      if (isForNow) queue.set(place, { key: subject.key, action, at: clock.now(), report });
      return report;
    },
    waiting(key) {
      const found = [...queue.values()].find((each) => each.key === key);
      return found ? { action: found.action, at: found.at } : null;
    },
    approve: (run) => decide(run, ['held'], approveRun),
    reject: (run) =>
      decide(run, ['held', 'sending', 'committed'], async (context, unfinished, onRun) => {
        onRun(await rejectRun(context, unfinished, 'Rejected.'));
        await holdRejected(context);
      }),
  };
}

/** Runs to read for a suggestion if a run's id is unknown. */
const LISTED = 100;

/** @param waiting - runs that can be decided */
function unknownRun(name: string, waiting: readonly Run[]): RollcallError {
  const own = waiting.find(({ key }) => key === name);
  if (own) return new RollcallError('unknown_run', `There is no run ${name}. The run of ${name} is ${own.id}.`);
  const help = suggestion(
    name,
    waiting.map(({ id }) => id),
  );
  return new RollcallError('unknown_run', `There is no run ${name}${help.endsWith('?') ? help : '.'}`);
}

function tooLate({ id, state }: Run, states: readonly RunState[]): RollcallError {
  const wanted = states.length === 1 ? 'held' : 'held or unfinished';
  return new RollcallError('unknown_run', `The run ${id} is ${state}, not ${wanted}.`);
}
