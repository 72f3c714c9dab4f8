/** The methods of a client of `pg` that the store needs. */
export interface PostgresClient {
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
  release(error?: Error): void;
  on?(event: 'error', listener: () => void): unknown;
  off?(event: 'error', listener: () => void): unknown;
}

/**
 * Listens for errors of broken connections: without a listener, each restart of the database would end the process.
 * Ignoring them loses nothing: the next query fails or gets another connection.
 */
export const ignore = () => {};

/** The methods of a `Pool` of `pg` that the store needs. */
export interface PostgresPool {
  connect(): Promise<PostgresClient>;
  on?(event: 'error', listener: () => void): unknown;
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
}
