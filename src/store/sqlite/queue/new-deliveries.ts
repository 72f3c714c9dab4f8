import type { SQLInputValue } from 'node:sqlite';
import type { Connection } from '../connection.ts';
import { ManyRows, MOST } from '../many-rows.ts';

/** Values shared by deliveries that are written together, with numbers for names. */
interface CommonValues {
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

/** A delivery claimed on accept. Its id is set once its row is written. */
export interface Handed {
  readonly message: number;
  readonly destination: string;
  id: number;
}

const ROWS = new ManyRows(
  `INSERT INTO delivery
    (destination, lane, state, owner, tries, source, run, type, message_id, user_id, due_at, accepted_at, conflict, body)`,
  '(?1, ?2, ?3, ?4, 0, ?5, ?6, ?, ?, ?, ?, ?, ?, ?)',
);

/**
 * Writes many deliveries per statement. After `write` all are in the database, per destination in the order of `add`.
 */
export class NewDeliveries {
  private readonly db: Connection;
  private readonly groups = new Map<number, RowGroup>();

  constructor(db: Connection) {
    this.db = db;
  }

  /** @param handed - receives the id of the row; null if nobody needs it */
  add(
    common: CommonValues,
    { now, type, messageId, userId, conflict, body }: NewDelivery,
    handed: Handed | null,
  ): void {
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

  writeOf(destination: number): void {
    const group = this.groups.get(destination);
    if (group !== undefined) this.writeGroup(group);
  }

  /** Like `writeOf`, if a change of this key is among it. */
  writeIfChanged(destination: number, conflict: string): void {
    const group = this.groups.get(destination);
    if (group?.conflicts.has(conflict)) this.writeGroup(group);
  }

  write(): void {
    for (const group of this.groups.values()) this.writeGroup(group);
  }

  private writeGroup({ common, values, handed, conflicts }: RowGroup): void {
    const { destination, lane, state, owner, source, run } = common;
    let id = ROWS.write(this.db, [destination, lane, state, owner, source, run], values) - handed.length;
    for (const each of handed) {
      id += 1;
      if (each !== null) each.id = id;
    }
    values.length = 0;
    handed.length = 0;
    conflicts.clear();
  }
}

interface RowGroup {
  readonly common: CommonValues;
  readonly values: SQLInputValue[];
  readonly handed: (Handed | null)[];
  readonly conflicts: Set<string>;
}

function isSame(one: CommonValues, other: CommonValues): boolean {
  return (
    one.state === other.state &&
    one.owner === other.owner &&
    one.lane === other.lane &&
    one.source === other.source &&
    one.run === other.run
  );
}
