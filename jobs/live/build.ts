import type { Clock } from '../../src/kernel/clock.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import { failpoint } from '../../src/kernel/failpoint.ts';
import { anonymousForm, hashedForms, type IdSets, idSets } from '../../src/store/deleted-ids.ts';
import type { LogScan } from '../../src/store/event-log.ts';
import type { LogFiles } from '../../src/store/events/files.ts';
import { scanFiles } from '../../src/store/events/scan.ts';
import type { Fence, Store } from '../../src/store/port.ts';
import type { JobLog } from '../run/run-context.ts';
import type { LiveComputation } from './definitions.ts';
import { differences, quietKeys, withoutExcluded } from './differences.ts';
import { standingOf } from './evaluate.ts';
import type { AskedOfAll } from './facts.ts';
import { FORGOTTEN, isGone, isNamedByOthers, linksLeft } from './forget.ts';
import { idOf, isUser, type RawId, userRaw } from './identity.ts';
import { nothingKept } from './kept.ts';
import { tidy } from './kept-facts.ts';
import { isAhead } from './latest-time.ts';
import type { IdRow, Standings } from './people.ts';
import { rowsIn, wantedOf } from './scan-rows.ts';
import { written } from './state-rows.ts';

interface BuildParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: JobLog;
  readonly files: LogFiles;
  readonly source: string;
  /** The definitions whose membership is computed. */
  readonly computations: ReadonlyMap<string, LiveComputation>;
  /** True if the state that serves the source keeps computing other definitions. */
  readonly background: boolean;
  readonly fence: Fence;
  readonly signal: AbortSignal;
}

/** The most ids or persons written at once, and the most rows read for them. */
const PAGE = { alone: 5_000, background: 1_000 };
const READ = 50_000;
const CLEARED = 2_000;
/** Retries of a page after deletions that began in the meantime. */
const TRIES = 20;
/** Milliseconds between progress reports in the log. */
const SAY_EVERY = 10_000;

/**
 * Builds a state from the whole log and computes all memberships, without sending anything: for new definitions, and if
 * the former state is lost or has another version. Events logged in the meantime are read afterwards, from the position
 * where the build ends. Resolves to the new state.
 */
export async function build(parts: BuildParts, asked: AskedOfAll): Promise<number> {
  const { store, source, background, fence, clock, signal, log } = parts;
  const startedAt = clock.now();
  const { unlogged } = await store.deletions(null);
  let state = 0;
  const begin = async (position: string) => {
    state = await store.live.beginState(source, asked.text, position, background, fence);
    // The scan also has events of their users that were logged since.
    if ((await store.deletions(null)).unlogged !== unlogged) throw deletedMeanwhile();
    failpoint('live_build');
    while (await store.live.clearOver(source, CLEARED)) {
      failpoint('live_build');
      signal.throwIfAborted();
    }
  };
  log.info({ source, definitions: asked.definitions.length }, 'Building live audiences from the event log');
  await scan(parts, asked, startedAt, begin, async (found) => {
    // Only a wrong clock can put an event in the future.
    const now = isAhead(found.newest, clock.now()) ? startedAt : Math.max(startedAt, found.newest);
    const building = new Building(parts, asked, { state, now, unlogged, total: found.rows });
    await building.people(found);
    await building.anonymous(found);
    await store.live.endBuild(state, now, fence);
    log.info({ source, rows: found.rows, ms: clock.now() - startedAt }, 'Built live audiences');
  });
  failpoint('live_build');
  return state;
}

function scan(
  { store, files: place, clock, signal }: BuildParts,
  asked: AskedOfAll,
  now: number,
  begin: (position: string) => Promise<void>,
  read: (scan: LogScan) => Promise<void>,
): Promise<void> {
  const { events } = store;
  const wanted = wantedOf(asked, now);
  if (events.kind === 'table') {
    return events.scan(wanted, now, signal, (place) => begin(JSON.stringify(place)), read);
  }
  const files = { log: events, place, token: () => clock.token(12), signal };
  return scanFiles(files, wanted, (last) => begin(String(last)), read);
}

/** Writes the result of a scan, a page at a time. */
class Building {
  private readonly parts: BuildParts;
  private readonly asked: AskedOfAll;
  private readonly state: number;
  private readonly now: number;
  /** The log was rid of users who were deleted up to this epoch when it was read. */
  private readonly unlogged: number;
  private readonly total: number;
  private done = 0;
  private written = 0;
  private saidAt: number;
  private rows: IdRow[] = [];
  private standings: Standings[] = [];

  constructor(
    parts: BuildParts,
    asked: AskedOfAll,
    given: { state: number; now: number; unlogged: number; total: number },
  ) {
    this.parts = parts;
    this.asked = asked;
    this.state = given.state;
    this.now = given.now;
    this.unlogged = given.unlogged;
    this.total = given.total;
    this.saidAt = parts.clock.monotonic();
  }

  /** Computes persons and writes rows of user ids, in the order of both tables, which is cheapest. */
  async people(found: LogScan): Promise<void> {
    let own: IdRow[] = [];
    for await (const { rows, count } of rowsIn(found.people(), this.asked)) {
      for (const row of rows) {
        if (own[0] && own[0].person !== row.person) {
          this.judge(own);
          own = [];
        }
        own.push(row);
      }
      await this.took(count);
    }
    this.judge(own);
    await this.write();
  }

  /** Writes rows of anonymous ids, in their order. */
  async anonymous(found: LogScan): Promise<void> {
    for await (const { rows, count } of rowsIn(found.anonymous(), this.asked)) {
      this.rows.push(...rows);
      await this.took(count);
    }
    await this.write();
  }

  /** @param own - all rows of one person */
  private judge(own: readonly IdRow[]): void {
    const person = own[0]?.person ?? null;
    if (person === null) return;
    const raw = userRaw(person);
    const kept = own.map((row) => row.kept);
    const { values, due } = standingOf(this.asked, person, kept, this.now);
    const rows = own.filter(({ raw }) => isUser(raw));
    if (due !== null && !rows.some((row) => row.raw === raw)) {
      rows.push(bareRow(raw, person));
    }
    for (const row of rows) if (row.raw === raw) row.due = due;
    this.rows.push(...rows);
    this.standings.push({ person, values, cause: () => null });
  }

  private async took(count: number): Promise<void> {
    this.done += count;
    const page = this.parts.background ? PAGE.background : PAGE.alone;
    const isMuch = this.done - this.written >= READ;
    if (isMuch || this.rows.length >= page || this.standings.length >= page) await this.write();
  }

  private async write(): Promise<void> {
    this.parts.signal.throwIfAborted();
    const [standings, rows] = [this.standings.splice(0), this.rows.splice(0)];
    for (const { kept } of rows) tidy(kept, this.asked, this.now);
    for (let left = TRIES; ; left -= 1) {
      try {
        await this.fill(standings, rows);
        break;
      } catch (error) {
        if (!(error instanceof RollcallError && error.code === 'epoch_moved') || left === 0) throw error;
      }
    }
    this.written = this.done;
    this.say();
    failpoint('live_build');
  }

  private async fill(standings: readonly Standings[], rows: readonly IdRow[]): Promise<void> {
    const { store, source, computations, fence } = this.parts;
    const deletions = await store.deletions(null);
    const gone = await this.goneFrom(rows, deletions.epoch);
    const those = standings.filter(({ person }) => !gone.users.has(person));
    const users = those.map(({ person }) => person);
    const found = differences(
      those,
      await store.live.membersOf(users, [...computations.keys()]),
      computations,
      this.now,
    );
    const { changes, waiting } = await withoutExcluded(store, source, found, deletions, this.now);
    const { state, done, total } = this;
    await store.live.fillState({
      ...{ fence, state, done, total, changes },
      epoch: deletions.epoch,
      quiet: quietKeys(found, computations),
      rows: written(dueRows(rowsLeft(rows, gone), waiting)).rows,
    });
  }

  /** Ids that the log loses after it was read. A deletion removes only rows that exist by then. */
  private async goneFrom(rows: readonly IdRow[], epoch: number): Promise<IdSets> {
    if (epoch === this.unlogged) return idSets({ users: [], anonymous: [] });
    const raws = rows.map(({ raw }) => raw);
    const users = new Set([
      ...raws.filter(isUser).map(idOf),
      ...rows.flatMap(({ person, links }) => [person ?? [], links.map(([user]) => user)].flat()),
    ]);
    const anonymous = raws.filter((raw) => !isUser(raw)).map(idOf);
    const forms = hashedForms({ users: [...users], anonymous });
    const out = new Set(await this.parts.store.deletedSince(forms, this.parts.source, this.unlogged));
    return idSets({
      users: [...users].filter((id) => out.has(id)),
      anonymous: anonymous.filter((id) => out.has(anonymousForm(id))),
    });
  }

  private say(): void {
    const { clock, log, source } = this.parts;
    if (clock.monotonic() - this.saidAt < SAY_EVERY) return;
    this.saidAt = clock.monotonic();
    const percent = Math.floor((100 * this.done) / Math.max(1, this.total));
    log.info({ source, done: this.done, total: this.total }, `Building live audiences: ${percent} %`);
  }
}

/** Without deleted ids; the persons who lose some are due. A person's user ids are in one page. */
function rowsLeft(rows: readonly IdRow[], gone: IdSets): readonly IdRow[] {
  if (gone.users.size + gone.anonymous.size === 0) return rows;
  const left = new Map<RawId, IdRow>();
  for (const row of rows) {
    const isDeleted = isGone(row.raw, gone);
    // Other pages may have the rows that say whose it is now.
    const isOfDeleted = row.person !== null && gone.users.has(row.person);
    if (isDeleted ? isNamedByOthers(row.raw, row.links, gone) : isOfDeleted) throw deletedMeanwhile();
    if (!isDeleted) left.set(row.raw, { ...row, links: linksLeft(row.links, gone) });
  }
  for (const { raw, person } of rows) {
    if (!isUser(raw) || left.has(raw) || person === null || gone.users.has(person)) continue;
    const own = left.get(userRaw(person)) ?? bareRow(userRaw(person), person);
    left.set(own.raw, { ...own, due: FORGOTTEN });
  }
  return [...left.values()];
}

/** With the due times of these persons. */
function dueRows(rows: readonly IdRow[], due: ReadonlyMap<string, number>): readonly IdRow[] {
  if (due.size === 0) return rows;
  const all = new Map(rows.map((row) => [row.raw, row]));
  for (const [person, until] of due) {
    const row = all.get(userRaw(person)) ?? bareRow(userRaw(person), person);
    all.set(row.raw, { ...row, due: Math.min(row.due ?? until, until) });
  }
  return [...all.values()];
}

function deletedMeanwhile(): RollcallError {
  return new RollcallError('live_moved', 'Users were deleted while live membership was computed.');
}

const bareRow = (raw: RawId, person: string): IdRow => {
  return { raw, person, kept: nothingKept(), links: [], due: null, before: null };
};
