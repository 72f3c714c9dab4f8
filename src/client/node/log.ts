import debug from 'debug';

/** Prints to stderr when the environment variable DEBUG is `analytics`. */
export const log = debug('analytics');
