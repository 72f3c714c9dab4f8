import { RollcallError } from '../../src/kernel/errors.ts';
import type { Deletions, Run } from '../../src/store/port.ts';
import type { RunContext } from './run-context.ts';

const BATCH = 5000;

type Counts = Pick<Run, 'members' | 'entered' | 'exited'>;

/**
 * Keeps deleted and suppressed users out of what a run has computed. A deletion itself removes what it finds in the
 * engine, but can't see a plan that is still being computed, or rows that were already read. Those are removed here.
 * The store knows users by keyed hashes.
 */
export class Exclusions {
  /** The epoch that the next step is sent with. */
  epoch: number;
  private readonly context: Pick<RunContext, 'store' | 'engine' | 'subject' | 'signal' | 'log'>;
  private readonly run: string;
  private readonly since: number;
  private some: boolean;
  private suppresses: boolean;
  /** True if the engine's files may hold traces of users who were removed from this run. */
  private left = false;
  /** Removed users whom the run had counted. */
  private readonly counted = { members: 0, entered: 0, exited: 0 };

  private constructor(context: RunContext, run: Run, { epoch, some, suppresses }: Deletions) {
    this.context = context;
    this.run = run.id;
    this.since = run.epoch;
    this.epoch = epoch;
    this.some = some;
    this.suppresses = suppresses;
  }

  static async of(context: RunContext, run: Run): Promise<Exclusions> {
    return new Exclusions(context, run, await context.store.deletions(run.epoch));
  }

  /** Passes `rows` without excluded users to `step`; tries again if a user was deleted in the meantime. */
  async accept<Row extends { readonly userId: string | null }>(
    rows: readonly Row[],
    step: (rows: readonly Row[], epoch: number) => Promise<{ readonly suppressed: number }>,
  ): Promise<number> {
    for (;;) {
      const wanted = this.some ? await this.without(rows) : rows;
      try {
        const { suppressed } = await step(wanted, this.epoch);
        if (suppressed > 0) await this.without(wanted);
        return wanted.length - suppressed;
      } catch (error) {
        if (!(error instanceof RollcallError && error.code === 'epoch_moved')) throw error;
        Object.assign(this, await this.context.store.deletions(this.since));
      }
    }
  }

  /** Removes excluded users from the unsent rest of the run's plan. */
  async purge(after: number): Promise<void> {
    if (!this.some && !this.suppresses) return;
    for (let from = after; ; ) {
      this.context.signal.throwIfAborted();
      const { userIds, positions } = await this.context.engine.changes(this.run, from, BATCH);
      const last = positions.at(-1);
      if (last === undefined) return;
      await this.without(userIds.map((userId) => ({ userId })));
      from = last;
    }
  }

  countsOf({ members, entered, exited }: Counts): Counts {
    const { counted } = this;
    return {
      members: members - counted.members,
      entered: entered - counted.entered,
      exited: exited - counted.exited,
    };
  }

  /** Removes traces of excluded users that the plan left in the engine's files. */
  async scrub(): Promise<void> {
    const { engine, log, subject } = this.context;
    if (!this.left) return;
    await engine
      .scrub('plans')
      .catch((error) =>
        log.warn({ err: error, key: subject.key }, 'Could not remove traces of the plan from the engine'),
      );
  }

  /** Subtracts users from the counts, before they are removed. */
  private async uncount(users: readonly string[]): Promise<void> {
    const { engine, subject } = this.context;
    const before = await engine.lookup(subject.key, users);
    for (const [user, { present }] of await engine.lookup(subject.key, users, this.run)) {
      const was = before.get(user)?.present ?? false;
      if (present) this.counted.members += 1;
      if (present && !was) this.counted.entered += 1;
      if (was && !present) this.counted.exited += 1;
    }
  }

  /** Removes excluded users from the rows, the snapshot and the plan. */
  private async without<Row extends { readonly userId: string | null }>(rows: readonly Row[]): Promise<readonly Row[]> {
    const { store, engine, subject } = this.context;
    const users = rows.flatMap(({ userId }) => userId ?? []);
    const out = new Set(await store.excluded(users, subject.source, this.since));
    if (out.size === 0) return rows;
    await this.uncount([...out]);
    await engine.forget([...out], [subject.key]);
    this.left = true;
    return rows.filter(({ userId }) => userId === null || !out.has(userId));
  }
}
