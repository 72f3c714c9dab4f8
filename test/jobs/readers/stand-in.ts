import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { type DuckDBConnection, DuckDBInstance, DuckDBListType, type DuckDBType } from '@duckdb/node-api';

/** A result, with the values as DuckDB writes them in JSON. */
export interface FoundRows {
  readonly columns: readonly { readonly name: string; readonly type: DuckDBType }[];
  readonly rows: readonly (readonly unknown[])[];
}

/** A statement that runs. */
export interface Running {
  readonly done: Promise<FoundRows | Error>;
  cancel(): void;
}

/** A server's request, and its answer: a status and JSON, or nothing if it was answered. */
export interface Asked {
  readonly method: string;
  readonly url: URL;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
  readonly response: ServerResponse;
}
export type Answered = readonly [status: number, body: object] | null;

export interface StandIn {
  readonly url: string;
  readonly port: number;
  readonly requests: string[];
  close(): Promise<void>;
}

/** Runs a statement, or only describes its columns. */
type Run = (sql: string, isDescribed?: boolean) => Promise<Running>;

/** Serves a protocol of a warehouse over DuckDB, in place of what can't be had here. */
export async function startStandIn(
  answer: (asked: Asked, run: Run) => Promise<Answered>,
  prepare: readonly string[] = [],
): Promise<StandIn> {
  const instance = await DuckDBInstance.create(':memory:', { threads: '1' });
  const first = await instance.connect();
  for (const sql of ["SET TimeZone = 'UTC'", ...prepare]) await first.run(sql);
  const requests: string[] = [];
  const server = createServer(async (request, response) => {
    const url = new URL(request.url ?? '', 'http://stand.in');
    requests.push(`${request.method} ${url.pathname}`);
    const asked = { method: request.method ?? '', url, headers: request.headers, body: await text(request), response };
    const [status, body] = (await answer(asked, (...given) => begin(instance, ...given))) ?? [0, {}];
    if (status === 0) return;
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    requests,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
      first.closeSync();
      instance.closeSync();
    },
  };
}

async function begin(instance: DuckDBInstance, sql: string, isDescribed = false): Promise<Running> {
  const connection = await instance.connect();
  let isOver = false;
  const done = (isDescribed ? describe : read)(connection, sql).finally(() => {
    isOver = true;
    connection.closeSync();
  });
  // Some phases ignore an interrupt.
  const cancel = () => {
    if (isOver) return;
    connection.interrupt();
    setTimeout(cancel, 100);
  };
  return { done, cancel };
}

async function read(connection: DuckDBConnection, sql: string): Promise<FoundRows | Error> {
  try {
    await connection.run("SET TimeZone = 'UTC'");
    const found = await connection.runAndReadAll(sql);
    const columns = found.columnNames().map((name, place) => ({ name, type: found.columnType(place) }));
    return { columns, rows: found.getRowsJson() };
  } catch (error) {
    return error as Error;
  }
}

async function describe(connection: DuckDBConnection, sql: string): Promise<FoundRows | Error> {
  try {
    const prepared = await connection.prepare(sql);
    const places = Array.from({ length: prepared.columnCount }, (_, place) => place);
    const columns = places.map((place) => ({ name: prepared.columnName(place), type: prepared.columnType(place) }));
    return { columns, rows: [] };
  } catch (error) {
    return error as Error;
  }
}

/** An error's first line and its place in the SQL, from 1. */
export function placed({ message }: Error): { readonly what: string; readonly line: number; readonly column: number } {
  const [what = ''] = message.split('\n');
  const [, line = '1', , caret = ''] = /\nLINE (\d+): (.*)\n( *)\^/.exec(message) ?? [];
  return { what, line: Number(line), column: Math.max(1, caret.length - `LINE ${line}: `.length + 1) };
}

export const isListType = (type: DuckDBType): type is DuckDBListType => type instanceof DuckDBListType;
