/** The prefix of message ids for one version of a live audience. Those of a run begin with the run's id. */
export const liveRun = (key: string, version: number): string => `live-${key}-${version.toString(36)}`;
