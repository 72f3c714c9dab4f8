import { MESSAGE_TYPES } from '../../message-types.ts';
import { loggedMessageId, loggedResponse, loggedUser } from '../logged.ts';
import { type Attempt, type Claim, LANES, OUTCOMES, type Settlement, type Verdict } from '../port.ts';
import { DELETION_LANE } from '../states.ts';
import { movableText, type PackedText, Places, packText, unpackText } from './packed-text.ts';

export type VerdictTuple =
  | readonly ['retry', dueAt: number, firstAt: number, marks: string | null]
  | readonly ['release', dueAt: number | null]
  | readonly ['dead', reason: string, status: number | null, firstAt: number | null, marks: string | null];

/** Deliveries that were delivered, and that count alike. */
export interface DeliveredGroup {
  /** A place in the list of names, as all names here. */
  readonly destination: number;
  readonly run: number | null;
  readonly isUntried: boolean;
  /** Whether they counted towards the limit of their queue so far. */
  readonly isQueued: boolean;
  /** Whether any of them is a change that a newer one may wait for. */
  hasConflicts: boolean;
  readonly ids: number[];
}

/** Settlements as they cross to the store's thread: lists of numbers cost an eighth of what as many objects do. */
export class PackedSettlements {
  readonly owner: number;
  /** Whether what was delivered is kept. */
  readonly keeps: boolean;
  readonly names: readonly string[];
  readonly delivered: DeliveredGroup[] = [];
  /** Claims that end without being delivered. */
  readonly others = {
    id: [] as number[],
    destination: [] as number[],
    conflict: [] as (string | null)[],
    run: [] as (number | null)[],
    tries: [] as number[],
    lane: [] as number[],
    verdict: [] as VerdictTuple[],
  };
  readonly attempts: PackedAttempts;

  /** @param ahead - how far the store's time is ahead of the wall clock, which attempts are in */
  constructor(
    owner: number,
    settlements: readonly Settlement[],
    ahead: number,
    numberOf: (delivery: string) => number,
    keeps: boolean,
  ) {
    this.owner = owner;
    this.keeps = keeps;
    const names = new Places<string>();
    const log = new AttemptPacker(names, ahead);
    for (const { claim, verdict, attempts } of settlements) {
      const id = numberOf(claim.id);
      log.add(id, claim, attempts);
      const destination = names.of(claim.destination);
      const run = claim.run === null ? null : names.of(claim.run);
      const { conflict, tries } = claim;
      const lane = LANES.indexOf(claim.lane);
      if (verdict.kind === 'delivered') {
        const group = this.groupOf(destination, run, tries === 0, countsAsQueued({ tries, lane }));
        group.ids.push(id);
        group.hasConflicts ||= conflict !== null;
      } else {
        const { others } = this;
        others.id.push(id);
        others.destination.push(destination);
        others.conflict.push(conflict);
        others.run.push(run);
        others.tries.push(tries);
        others.lane.push(lane);
        others.verdict.push(verdictTuple(verdict));
      }
    }
    this.names = names.list;
    this.attempts = log.packed();
  }

  private groupOf(destination: number, run: number | null, isUntried: boolean, isQueued: boolean): DeliveredGroup {
    const isAlike = (group: DeliveredGroup) =>
      group.destination === destination &&
      group.run === run &&
      group.isUntried === isUntried &&
      group.isQueued === isQueued;
    // Those that end together mostly count alike.
    const last = this.delivered.at(-1);
    const known = last && isAlike(last) ? last : this.delivered.find(isAlike);
    if (known) return known;
    const group = { destination, run, isUntried, isQueued, hasConflicts: false, ids: [] };
    this.delivered.push(group);
    return group;
  }
}

/** What may be moved instead of copied. */
export const movableSettlements = ({ attempts }: PackedSettlements): ArrayBuffer[] => movableText(attempts.text);

/** Whether a delivery counts towards the limit of its queue. */
export function countsAsQueued({ tries, lane }: { readonly tries: number; readonly lane: number }): boolean {
  return tries === 0 && lane !== DELETION_LANE;
}

/** Attempts by column. Those of one request stand in a row. */
export interface PackedAttempts {
  /** One for each request: how many deliveries it carried, and what came of it for these. */
  readonly count: readonly number[];
  readonly at: readonly number[];
  readonly endpoint: readonly number[];
  readonly outcome: readonly number[];
  readonly status: readonly (number | null)[];
  readonly ms: readonly number[];
  readonly error: readonly (string | null)[];
  readonly response: readonly (string | null)[];
  /** One for each delivery. Of the message's id and its user the lengths in `text`, -1 for nobody. */
  readonly delivery: readonly number[];
  readonly destination: readonly number[];
  readonly source: readonly number[];
  readonly type: readonly number[];
  readonly messageId: readonly number[];
  readonly userId: readonly number[];
  readonly text: PackedText;
}

class AttemptPacker {
  private readonly names: Places<string>;
  private readonly ahead: number;
  private readonly columns = {
    ...{ count: [] as number[], at: [] as number[], endpoint: [] as number[], outcome: [] as number[] },
    ...{ status: [] as (number | null)[], ms: [] as number[] },
    ...{ error: [] as (string | null)[], response: [] as (string | null)[] },
    ...{ delivery: [] as number[], destination: [] as number[], source: [] as number[], type: [] as number[] },
    ...{ messageId: [] as number[], userId: [] as number[] },
  };
  private text = '';
  private last: readonly Attempt[] | null = null;

  constructor(names: Places<string>, ahead: number) {
    this.names = names;
    this.ahead = ahead;
  }

  add(id: number, claim: Claim, attempts: readonly Attempt[]): void {
    const { count } = this.columns;
    // What is logged of these is made for each: an answer may name the user.
    const isPlain = claim.type !== 'alias' && claim.type !== 'delete';
    if (isPlain && attempts.length === 1 && attempts === this.last) count[count.length - 1] = (count.at(-1) ?? 0) + 1;
    else for (const attempt of attempts) this.begin(claim, attempt);
    for (let left = attempts.length; left > 0; left -= 1) this.addDelivery(id, claim);
    this.last = isPlain ? attempts : null;
  }

  packed(): PackedAttempts {
    return { ...this.columns, text: packText(this.text) };
  }

  private begin(claim: Claim, { at, endpoint, ms, outcome, status, error, response }: Attempt): void {
    const { columns } = this;
    columns.count.push(1);
    columns.at.push(Math.round(at + this.ahead));
    columns.endpoint.push(this.names.of(endpoint));
    columns.outcome.push(OUTCOMES.indexOf(outcome));
    columns.status.push(status);
    columns.ms.push(Math.round(ms));
    columns.error.push(error);
    columns.response.push(loggedResponse(claim, response));
  }

  private addDelivery(id: number, claim: Claim): void {
    const { columns } = this;
    const messageId = loggedMessageId(claim);
    const userId = loggedUser(claim);
    columns.delivery.push(id);
    columns.destination.push(this.names.of(claim.destination));
    columns.source.push(this.names.of(claim.source));
    columns.type.push(MESSAGE_TYPES.indexOf(claim.type));
    columns.messageId.push(messageId.length);
    columns.userId.push(userId === null ? -1 : userId.length);
    this.text += messageId;
    if (userId !== null) this.text += userId;
  }
}

type RequestColumns = readonly [
  at: number,
  endpoint: number,
  outcome: number,
  status: number | null,
  ms: number,
  error: string | null,
  response: string | null,
];

/** Reads attempts. */
export class UnpackedAttempts {
  private readonly packed: PackedAttempts;
  private readonly nameIds: readonly number[];
  private text: string | null = null;
  /** Where the texts of each delivery begin; made when one is first asked for. */
  private starts: number[] = [];

  /** @param nameIds - the numbers that stand for the names */
  constructor(packed: PackedAttempts, nameIds: readonly number[]) {
    this.packed = packed;
    this.nameIds = nameIds;
  }

  /** What all rows of a request have in common. */
  head(request: number): RequestColumns {
    const { packed } = this;
    return [
      packed.at[request] as number,
      this.nameId(packed.endpoint[request]),
      packed.outcome[request] as number,
      packed.status[request] ?? null,
      packed.ms[request] as number,
      packed.error[request] ?? null,
      packed.response[request] ?? null,
    ];
  }

  /** A whole row, of the delivery at this place. */
  row(request: number, place: number): readonly (number | string | null)[] {
    const { packed } = this;
    this.text ??= this.read();
    const start = this.starts[place] as number;
    const middle = start + (packed.messageId[place] as number);
    const userLength = packed.userId[place] as number;
    return [
      packed.at[request] as number,
      packed.delivery[place] as number,
      this.nameId(packed.destination[place]),
      this.nameId(packed.endpoint[request]),
      this.nameId(packed.source[place]),
      packed.type[place] as number,
      this.text.slice(start, middle),
      userLength < 0 ? null : this.text.slice(middle, middle + userLength),
      packed.outcome[request] as number,
      packed.status[request] ?? null,
      packed.ms[request] as number,
      packed.error[request] ?? null,
      packed.response[request] ?? null,
    ];
  }

  private nameId(name: number | undefined): number {
    return this.nameIds[name as number] as number;
  }

  private read(): string {
    let at = 0;
    this.starts = this.packed.messageId.map((length, delivery) => {
      const start = at;
      at += length + Math.max(0, this.packed.userId[delivery] as number);
      return start;
    });
    return unpackText(this.packed.text);
  }
}

function verdictTuple(verdict: Exclude<Verdict, { readonly kind: 'delivered' }>): VerdictTuple {
  switch (verdict.kind) {
    case 'retry': {
      const marks = Object.keys(verdict.marks).length > 0 ? JSON.stringify(verdict.marks) : null;
      return ['retry', verdict.dueAt, verdict.firstAt, marks];
    }
    case 'release':
      return ['release', verdict.dueAt];
    case 'dead':
      return [
        'dead',
        verdict.reason,
        verdict.status,
        verdict.firstAt,
        verdict.marks ? JSON.stringify(verdict.marks) : null,
      ];
  }
}
