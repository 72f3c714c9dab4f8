/** The version of the three packages; a test compares it with their package.json files. */
export const VERSION = '0.1.0';
