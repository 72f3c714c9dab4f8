import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { DatabaseSync } from 'node:sqlite';
import { Readable } from 'node:stream';
import { json } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import type { Test } from 'tap';

/** The entries of an answer's lines, by https://github.com/tursodatabase/libsql/blob/main/docs/HRANA_3_SPEC.md */
function* entries(database: DatabaseSync, sql: string) {
  yield { baton: null, base_url: null };
  try {
    const statement = database.prepare(sql);
    statement.setReturnArrays(true);
    statement.setReadBigInts(true);
    const cols = statement.columns().map(({ name, type }) => ({ name, decltype: type }));
    yield { type: 'step_begin', step: 0, cols };
    for (const row of statement.iterate()) yield { type: 'row', row: (row as unknown as unknown[]).map(coded) };
    yield { type: 'step_end', affected_row_count: 0, last_insert_rowid: null };
  } catch (error) {
    yield { type: 'step_error', step: 0, error: { message: (error as Error).message } };
  }
}

function coded(value: unknown) {
  if (value === null) return { type: 'null' };
  if (typeof value === 'bigint') return { type: 'integer', value: String(value) };
  if (typeof value === 'number') return { type: 'float', value };
  if (typeof value === 'string') return { type: 'text', value };
  return { type: 'blob', base64: Buffer.from(value as Uint8Array).toString('base64') };
}

interface Libsql {
  readonly url: string;
  readonly port: number;
  /** Ends the next answer, as if it were whole, before its entry of this type. */
  endBefore: string | null;
}

/** Serves the cursor of libSQL's HTTP API over a SQLite file. */
export async function startLibsql(t: Test, path: string, token: string): Promise<Libsql> {
  const database = new DatabaseSync(path, { readOnly: true });
  const server = createServer(async (request, response) => {
    if (request.headers.authorization !== `Bearer ${token}` || request.url !== '/v3/cursor')
      return response.writeHead(401).end();
    const { batch } = (await json(request)) as { batch: { steps: [{ stmt: { sql: string } }] } };
    function* lines() {
      for (const entry of entries(database, batch.steps[0].stmt.sql)) {
        if ('type' in entry && entry.type === libsql.endBefore) return;
        yield `${JSON.stringify(entry)}\n`;
      }
    }
    // The client may be gone.
    await pipeline(Readable.from(lines()), response).catch(() => {});
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
    database.close();
  });
  const { port } = server.address() as AddressInfo;
  const libsql: Libsql = { url: `http://127.0.0.1:${port}`, port, endBefore: null };
  return libsql;
}
