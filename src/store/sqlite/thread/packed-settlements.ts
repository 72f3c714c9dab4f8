import { MESSAGE_TYPES } from '../../../message-types.ts';
import { type Attempt, type Claim, LANES, OUTCOMES, type Settlement, type Verdict } from '../../port.ts';
import { DELETION_LANE } from '../../states.ts';
import { takenOf } from '../../taken.ts';
import { loggedMessageId, loggedResponse, loggedUser } from '../../users.ts';

export type VerdictTuple =
  | readonly ['retry', dueAt: number, firstAt: number, marks: string | null]
  | readonly ['release', dueAt: number | null]
  | readonly [
      'dead',
      reason: string,
      status: number | null,
      firstAt: number | null,
      marks: string | null,
      taken: string | null,
    ];

/** Interns names as places in a list. */
class Names {
  readonly list: string[] = [];
  private readonly places = new Map<string, number>();

  of(name: string): number {
    let place = this.places.get(name);
    if (place === undefined) {
      place = this.list.push(name) - 1;
      this.places.set(name, place);
    }
    return place;
  }
}

/** Delivered deliveries that change the same counters. */
export interface DeliveredGroup {
  /** A place in the list of names, like all names here. */
  readonly destination: number;
  readonly run: number | null;
  readonly isUntried: boolean;
  /** True if they counted towards the limit of their queue. */
  readonly isQueued: boolean;
  /** True if any of them is a change that a newer one may wait for. */
  hasConflicts: boolean;
  readonly ids: number[];
}

/** Settlements as they cross to the store's thread: lists of numbers cost an eighth of as many objects. */
export class PackedSettlements {
  readonly owner: number;
  readonly keeps: boolean;
  readonly names: readonly string[];
  readonly delivered: readonly DeliveredGroup[];
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

  /** @param ahead - milliseconds that the store's time is ahead of the wall clock, which attempts use */
  constructor(
    owner: number,
    settlements: readonly Settlement[],
    ahead: number,
    numberOf: (delivery: string) => number,
    keeps: boolean,
  ) {
    this.owner = owner;
    this.keeps = keeps;
    const names = new Names();
    const log = new AttemptPacker(names, ahead);
    const delivered = new Map<number, DeliveredGroup>();
    for (const settlement of settlements) {
      const { claim, verdict, attempts } = settlement;
      const id = numberOf(claim.id);
      const destination = names.of(claim.destination);
      log.add(id, destination, claim, attempts);
      const run = claim.run === null ? null : names.of(claim.run);
      const { conflict, tries } = claim;
      const lane = LANES.indexOf(claim.lane);
      if (verdict.kind === 'delivered') {
        const alike = { destination, run, isUntried: tries === 0, isQueued: countsAsQueued({ tries, lane }) };
        const group = groupOf(delivered, alike);
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
        others.verdict.push(verdictTuple(verdict, takenOf(settlement)));
      }
    }
    this.delivered = [...delivered.values()];
    this.names = names.list;
    this.attempts = log.packed;
  }
}

/** More than the names in one call. */
const NAMES = 2 ** 20;

function groupOf(
  groups: Map<number, DeliveredGroup>,
  alike: Pick<DeliveredGroup, 'destination' | 'run' | 'isUntried' | 'isQueued'>,
): DeliveredGroup {
  const { destination, run, isUntried, isQueued } = alike;
  const key = (destination * NAMES + (run ?? -1) + 1) * 4 + (isUntried ? 2 : 0) + (isQueued ? 1 : 0);
  let group = groups.get(key);
  if (!group) {
    group = { ...alike, hasConflicts: false, ids: [] };
    groups.set(key, group);
  }
  return group;
}

export function countsAsQueued({ tries, lane }: { readonly tries: number; readonly lane: number }): boolean {
  return tries === 0 && lane !== DELETION_LANE;
}

export class PackedAttempts {
  /** Per request: the number of its deliveries, and their outcome. */
  readonly requests = {
    ...{ count: [] as number[], at: [] as number[], endpoint: [] as number[], outcome: [] as number[] },
    ...{ status: [] as (number | null)[], ms: [] as number[] },
    ...{ error: [] as (string | null)[], response: [] as (string | null)[] },
  };
  /** Per delivery; those of one request are adjacent. */
  readonly deliveries = {
    ...{ id: [] as number[], destination: [] as number[], source: [] as number[], type: [] as number[] },
    ...{ messageId: [] as string[], userId: [] as (string | null)[] },
  };
}

class AttemptPacker {
  readonly packed = new PackedAttempts();
  private readonly names: Names;
  private readonly ahead: number;
  private last: readonly Attempt[] | null = null;

  constructor(names: Names, ahead: number) {
    this.names = names;
    this.ahead = ahead;
  }

  /** @param destination - the place of its name */
  add(id: number, destination: number, claim: Claim, attempts: readonly Attempt[]): void {
    const { count } = this.packed.requests;
    // Attempts of these types are logged one by one: an answer may name the user.
    const isPlain = claim.type !== 'alias' && claim.type !== 'delete';
    if (isPlain && attempts.length === 1 && attempts === this.last) count[count.length - 1] = (count.at(-1) ?? 0) + 1;
    else for (const attempt of attempts) this.begin(claim, attempt);
    for (let left = attempts.length; left > 0; left -= 1) this.addDelivery(id, destination, claim);
    this.last = isPlain ? attempts : null;
  }

  private begin(claim: Claim, { at, endpoint, ms, outcome, status, error, response }: Attempt): void {
    const { requests } = this.packed;
    requests.count.push(1);
    requests.at.push(Math.round(at + this.ahead));
    requests.endpoint.push(this.names.of(endpoint));
    requests.outcome.push(OUTCOMES.indexOf(outcome));
    requests.status.push(status);
    requests.ms.push(Math.round(ms));
    requests.error.push(error);
    requests.response.push(loggedResponse(claim, response));
  }

  private addDelivery(id: number, destination: number, claim: Claim): void {
    const { deliveries } = this.packed;
    deliveries.id.push(id);
    deliveries.destination.push(destination);
    deliveries.source.push(this.names.of(claim.source));
    deliveries.type.push(MESSAGE_TYPES.indexOf(claim.type));
    deliveries.messageId.push(loggedMessageId(claim));
    deliveries.userId.push(loggedUser(claim));
  }
}

/** Reads attempts by the places of their requests and deliveries. */
export class UnpackedAttempts {
  private readonly packed: PackedAttempts;
  private readonly nameIds: readonly number[];

  /** @param nameIds - the numbers that stand for the names */
  constructor(packed: PackedAttempts, nameIds: readonly number[]) {
    this.packed = packed;
    this.nameIds = nameIds;
  }

  /** Return what all rows of a request share: time, endpoint, outcome, status, milliseconds, error, response. */
  common(request: number): readonly (number | string | null)[] {
    const { at, endpoint, outcome, status, ms, error, response } = this.packed.requests;
    return [
      at[request] as number,
      this.nameId(endpoint[request]),
      outcome[request] as number,
      status[request] ?? null,
      ms[request] as number,
      error[request] ?? null,
      response[request] ?? null,
    ];
  }

  /** Return the values of a row that its neighbours mostly share: see `ATTEMPT_ROWS`. */
  shared(request: number, delivery: number): readonly (number | string | null)[] {
    const { requests, deliveries } = this.packed;
    return [
      this.nameId(deliveries.destination[delivery]),
      this.nameId(requests.endpoint[request]),
      this.nameId(deliveries.source[delivery]),
      requests.outcome[request] as number,
      requests.status[request] ?? null,
      requests.error[request] ?? null,
      requests.response[request] ?? null,
    ];
  }

  /** Return the values of a row that `shared` leaves out. */
  own(request: number, delivery: number): readonly (number | string | null)[] {
    const { requests, deliveries } = this.packed;
    return [
      requests.at[request] as number,
      deliveries.id[delivery] as number,
      deliveries.type[delivery] as number,
      deliveries.messageId[delivery] as string,
      deliveries.userId[delivery] ?? null,
      requests.ms[request] as number,
    ];
  }

  private nameId(name: number | undefined): number {
    return this.nameIds[name as number] as number;
  }
}

function verdictTuple(verdict: Exclude<Verdict, { readonly kind: 'delivered' }>, taken: string | null): VerdictTuple {
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
        taken,
      ];
  }
}
