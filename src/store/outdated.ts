/** Until the first release, the tables of version 1 change without a new number. */
export const BEFORE_010 =
  'The tables are of a build from before the release of 0.1.0, and this one has others. Start that build, or begin with an empty database.';
