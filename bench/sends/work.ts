export interface Work {
  readonly folder: string;
  /** Events of the log; every fourth is of a kind that the destination does not want. */
  readonly events: number;
  /** Days over which they were received. */
  readonly days: number;
  /** Port of the sink of live messages. */
  readonly livePort: number;
  readonly latePort: number;
}

export interface Sent {
  readonly sent: number;
  readonly delivered: number;
}
