/**
 * A restored store continues this many ids ahead. Ids given out after the copy was made belong to other messages, and
 * receivers remember them. More than will ever be given out between two copies; there is room for 8,000 restores of
 * restored stores below 2^53.
 */
export const IDS_AHEAD = 2 ** 40;
