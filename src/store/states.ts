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

/** The place of the deletion notices' lane in `LANES`. */
export const DELETION_LANE = 0;
