import { MESSAGE_TYPES } from '../message-types.ts';

/*
 * States of a delivery in both databases. These numbers are the disk format and part of the migrations' indexes: never
 * change them. The same holds for the indexes in `MESSAGE_TYPES`, `LANES` and `OUTCOMES`: append only.
 */

/** Claimable when due. */
export const READY = 0;
/** Claimed by the process in `owner`. */
export const CLAIMED = 1;
/** Waiting for an older claimed change of the same conflict key. */
export const WAITING = 2;

/** Indexes of deletion notices in `LANES` and `MESSAGE_TYPES`. */
export const DELETION_LANE = 0;
export const NOTICE = MESSAGE_TYPES.indexOf('delete');

/**
 * Ranks of deliveries in each order of claims. A rank is an index in `LANES`, plus 3 after a first try. Usually first
 * tries go before retries; within each, deletion notices before live messages before backfills.
 */
export const CLAIM_ORDERS = {
  usual: [0, 1, 2, 3, 4, 5],
  retries: [3, 4, 5, 0, 1, 2],
  backfills: [2, 0, 1, 3, 4, 5],
} as const;

/** The source of the service's own messages. No configured source or destination can have the name, because of the colon. */
export const ALERT_SOURCE = 'rollcall:alerts';
