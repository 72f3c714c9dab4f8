/** The methods of a client of `pg` that the store needs. */
export interface PostgresClient {
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
  release(error?: Error): void;
}

/** The methods of a `Pool` of `pg` that the store needs. */
export interface PostgresPool {
  connect(): Promise<PostgresClient>;
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
}
