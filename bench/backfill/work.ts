export const SECRET = 'bench-secret';
/** Milliseconds and messages of a batch. */
export const BATCH = { size: 500, wait: 50 };

/** A sender's task: how many users to send to whose port, and where its files may be. */
export interface Work {
  readonly port: number;
  readonly folder: string;
  readonly calls: number;
  readonly isBatched: boolean;
  /** True if two columns go with each change. */
  readonly hasColumns?: boolean;
}
