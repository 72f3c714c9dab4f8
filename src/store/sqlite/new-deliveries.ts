import type { SQLInputValue } from 'node:sqlite';
import type { Connection } from './connection.ts';

/** Values that deliveries which are written together share; names stand as their numbers. */
interface Common {
  readonly destination: number;
  readonly lane: number;
  readonly state: number;
  readonly owner: number | null;
  readonly source: number;
  readonly run: number | null;
}

interface NewDelivery {
  readonly now: number;
  readonly type: number;
  readonly messageId: string;
  readonly userId: string | null;
  readonly conflict: string | null;
  readonly body: string;
}

/** Gets the delivery's id as its last element. */
type Numbered = [unknown, unknown, id: number];

/** Rows of one statement; what is left over is written by as few of them as can be. */
const SIZES = [32, 8, 2, 1] as const;
const [MOST] = SIZES;
/** Values that a row has for itself: its time stands in it twice. */
const OWN = 7;

/**
 * Writes deliveries by the dozen: a row of a statement for many costs two thirds of one by itself. What is added is in the
 * database at the latest after `write`, for each destination in the order in which it was added.
 */
export class NewDeliveries {
  private readonly db: Connection;
  private readonly groups = new Map<number, Group>();

  constructor(db: Connection) {
    this.db = db;
  }

  /** @param handed - null where nobody needs the id */
  add(common: Common, { now, type, messageId, userId, conflict, body }: NewDelivery, handed: Numbered | null): void {
    let group = this.groups.get(common.destination);
    if (group === undefined || !isSame(group.common, common)) {
      if (group !== undefined) this.writeGroup(group);
      group = { common, values: [], handed: [], conflicts: new Set() };
      this.groups.set(common.destination, group);
    }
    group.values.push(type, messageId, userId, now, now, conflict, body);
    group.handed.push(handed);
    if (conflict !== null) group.conflicts.add(conflict);
    if (group.handed.length === MOST) this.writeGroup(group);
  }

  /** Writes everything that was added for a destination. */
  writeOf(destination: number): void {
    const group = this.groups.get(destination);
    if (group !== undefined) this.writeGroup(group);
  }

  /** The same, if a change of this key is among it. */
  writeIfChanged(destination: number, conflict: string): void {
    const group = this.groups.get(destination);
    if (group?.conflicts.has(conflict)) this.writeGroup(group);
  }

  write(): void {
    for (const group of this.groups.values()) this.writeGroup(group);
  }

  private writeGroup({ common, values, handed, conflicts }: Group): void {
    const { destination, lane, state, owner, source, run } = common;
    let written = 0;
    for (const size of SIZES) {
      while (handed.length - written >= size) {
        const own = values.slice(written * OWN, (written + size) * OWN);
        const last = this.db.insert(STATEMENTS[size], destination, lane, state, owner, source, run, ...own);
        // One statement numbers its rows without gaps.
        for (let id = last - size + 1; id <= last; id += 1, written += 1) {
          const tuple = handed[written];
          if (tuple) tuple[2] = id;
        }
      }
    }
    values.length = 0;
    handed.length = 0;
    conflicts.clear();
  }
}

interface Group {
  readonly common: Common;
  readonly values: SQLInputValue[];
  readonly handed: (Numbered | null)[];
  readonly conflicts: Set<string>;
}

function isSame(one: Common, other: Common): boolean {
  return (
    one.state === other.state &&
    one.owner === other.owner &&
    one.lane === other.lane &&
    one.source === other.source &&
    one.run === other.run
  );
}

/** Values that all rows share are bound once. The others go without numbers: Node compares each number with all before it. */
function statement(rows: number): string {
  const first = '(?1, ?2, ?3, ?4, 0, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)';
  const next = '(?1, ?2, ?3, ?4, 0, ?5, ?6, ?, ?, ?, ?, ?, ?, ?)';
  return `INSERT INTO delivery
    (destination, lane, state, owner, tries, source, run, type, message_id, user_id, due_at, accepted_at, conflict, body)
    VALUES ${[first, ...Array.from({ length: rows - 1 }, () => next)].join(', ')}`;
}

const STATEMENTS = Object.fromEntries(SIZES.map((size) => [size, statement(size)])) as Record<
  (typeof SIZES)[number],
  string
>;
