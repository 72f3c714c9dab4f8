import { MESSAGE_TYPES } from '../../message-types.ts';
import { loggedMessageId, loggedResponse, loggedUser } from '../logged.ts';
import { LANES, OUTCOMES, type Settlement, type Verdict } from '../port.ts';

export type VerdictTuple =
  | readonly ['retry', dueAt: number, firstAt: number, marks: string | null]
  | readonly ['release', dueAt: number | null]
  | readonly ['dead', reason: string, status: number | null, firstAt: number | null, marks: string | null];

/** Settlements by column: between threads, lists of numbers cost an eighth of what as many objects do. */
export class SettleColumns {
  readonly owner: number;
  /** Whether what was delivered is kept. */
  readonly keeps: boolean;
  /** What the columns of names are indexes into. */
  readonly names: string[] = [];
  readonly deliveries = {
    id: [] as number[],
    destination: [] as number[],
    conflict: [] as (string | null)[],
    run: [] as (number | null)[],
    tries: [] as number[],
    lane: [] as number[],
    /** Null for those that were delivered. */
    verdict: [] as (VerdictTuple | null)[],
  };
  readonly attempts = {
    at: [] as number[],
    delivery: [] as number[],
    destination: [] as number[],
    endpoint: [] as number[],
    source: [] as number[],
    type: [] as number[],
    messageId: [] as string[],
    userId: [] as (string | null)[],
    outcome: [] as number[],
    status: [] as (number | null)[],
    ms: [] as number[],
    error: [] as (string | null)[],
    response: [] as (string | null)[],
  };

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
    const indexes = new Map<string, number>();
    const indexOf = (name: string) => {
      let index = indexes.get(name);
      if (index === undefined) {
        index = this.names.push(name) - 1;
        indexes.set(name, index);
      }
      return index;
    };
    const { deliveries, attempts: log } = this;
    for (const { claim, verdict, attempts } of settlements) {
      const id = numberOf(claim.id);
      const destination = indexOf(claim.destination);
      deliveries.id.push(id);
      deliveries.destination.push(destination);
      deliveries.conflict.push(claim.conflict);
      deliveries.run.push(claim.run === null ? null : indexOf(claim.run));
      deliveries.tries.push(claim.tries);
      deliveries.lane.push(LANES.indexOf(claim.lane));
      deliveries.verdict.push(verdictTuple(verdict));
      for (const { at, endpoint, ms, outcome, status, error, response } of attempts) {
        log.at.push(Math.round(at + ahead));
        log.delivery.push(id);
        log.destination.push(destination);
        log.endpoint.push(indexOf(endpoint));
        log.source.push(indexOf(claim.source));
        log.type.push(MESSAGE_TYPES.indexOf(claim.type));
        log.messageId.push(loggedMessageId(claim));
        log.userId.push(loggedUser(claim));
        log.outcome.push(OUTCOMES.indexOf(outcome));
        log.status.push(status);
        log.ms.push(Math.round(ms));
        log.error.push(error);
        log.response.push(loggedResponse(claim, response));
      }
    }
  }
}

function verdictTuple(verdict: Verdict): VerdictTuple | null {
  switch (verdict.kind) {
    case 'delivered':
      return null;
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
