import { MESSAGE_TYPES } from '../message-types.ts';

/*
 * States of a delivery, as both databases keep them. These numbers are the disk format, and stand in the migrations' indexes:
 * none may change. So it is with the places in `MESSAGE_TYPES`, `LANES` and `OUTCOMES`: add at the end.
 */

/** To be claimed once it is due. */
export const READY = 0;
/** In the hands of the process that `owner` names. */
export const CLAIMED = 1;
/** Behind an older change of the same conflict key that is claimed. */
export const WAITING = 2;

/** Places of deletion notices in `LANES` and in `MESSAGE_TYPES`. */
export const DELETION_LANE = 0;
export const NOTICE = MESSAGE_TYPES.indexOf('delete');

/**
 * The ranks of deliveries in the orders of a claim. A rank is a place in `LANES`, plus 3 for what was tried before. Usually
 * first tries go before retries, within each deletion notices before live messages, and those before backfills.
 */
export const CLAIM_ORDERS = {
  usual: [0, 1, 2, 3, 4, 5],
  retries: [3, 4, 5, 0, 1, 2],
  backfills: [2, 0, 1, 3, 4, 5],
} as const;
