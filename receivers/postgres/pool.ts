/** The methods of a client of `pg` that the store needs. */
export interface PostgresClient {
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
  release(error?: Error): void;
  on?(event: 'error', listener: () => void): unknown;
  off?(event: 'error', listener: () => void): unknown;
}

/**
 * Hears of a connection that breaks: an `error` without a listener ends the process, as at each restart of the database.
 * Nothing is lost by not looking at it: the next query fails, or gets another connection.
 */
export const ignore = () => {};

/** The methods of a `Pool` of `pg` that the store needs. */
export interface PostgresPool {
  connect(): Promise<PostgresClient>;
  on?(event: 'error', listener: () => void): unknown;
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
}
