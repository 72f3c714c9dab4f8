/** The version of the three packages; a test holds it and their package.json files together. */
export const VERSION = '0.1.0';
