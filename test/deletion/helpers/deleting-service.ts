import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import pg from 'pg';
import type { Test } from 'tap';
import type { App } from '../../../src/app.ts';
import { loggingService } from '../../events/helpers/logging-app.ts';
import { caughtUp, computed } from '../../live/helpers/service.ts';

/** One posted body. */
export interface Post {
  readonly type: string;
  readonly userId?: string;
  readonly messageId?: string;
  readonly key: string;
  readonly text: string;
}

/** An endpoint that writes down what it accepts, and refuses for now while `status` says so. */
export async function startEndpoint(t: Test) {
  const posts: Post[] = [];
  const state = { status: 200, posts: posts as readonly Post[], url: '', answers: Promise.resolve() };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', async () => {
      await state.answers;
      const text = Buffer.concat(chunks).toString();
      // Receivers like to repeat what they got.
      response.statusCode = state.status;
      response.end(`got ${text}`);
      if (state.status !== 200) return;
      const { type, userId, messageId } = JSON.parse(text);
      posts.push({ type, userId, messageId, key: String(request.headers['idempotency-key']), text });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  state.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  return state;
}

const BUYERS = { performed: 'Bought', atLeast: 1 };
const COMMON = { source: 'personas', guard: { allowEmpty: true } };

/** A service with one audience, live and scheduled, whose messages go to one endpoint. */
export async function deletingService(t: Test, changes: object = {}) {
  const endpoint = await startEndpoint(t);
  const service = loggingService(t);
  const app = await service.open([], {
    network: { allow: ['127.0.0.0/8'] },
    destinations: [{ name: 'crm', sources: ['shop', 'personas'], webhooks: [{ url: endpoint.url }] }],
    audiences: [
      { ...COMMON, name: 'Live', live: true, when: BUYERS },
      { ...COMMON, name: 'Scheduled', schedule: '0 0 1 1 *', when: BUYERS },
    ],
    ...changes,
  });
  await app.start({ collect: true, schedules: true });
  return { ...service, app, endpoint };
}

/** Waits until nothing is pending, while the time of retries and probes passes. */
export async function deliveredLater({ app, advance }: Awaited<ReturnType<typeof deletingService>>): Promise<void> {
  while ((await app.store.backlog()).some(({ pending }) => pending > 0)) {
    advance(1_000);
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
}

/** Sends deletion requests and waits for their end. Resolves to how each ended. */
export async function forget(
  app: App,
  userIds: readonly string[],
  type: 'DELETE_ONLY' | 'SUPPRESS_ONLY' = 'DELETE_ONLY',
): Promise<string> {
  const id = await app.regulations.file({ type, sources: null, userIds });
  for (;;) {
    const status = (await app.regulations.find(id))?.status ?? '';
    if (status !== 'INITIALIZED' && status !== 'RUNNING') return status;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** A rebuilt state serves, and everybody was evaluated by it. */
export async function fresh(app: App): Promise<void> {
  const isFresh = async () => {
    const states = await app.store.live.allStates();
    return (
      states.length === 1 && states.every(({ isBuilding, isStale, isUnseen }) => !isBuilding && !isStale && !isUnseen)
    );
  };
  while (!(await isFresh())) await new Promise((done) => setTimeout(done, 20));
  await caughtUp(app);
}

/** The members of an audience. A scheduled one is synced first. */
export async function membersIn(app: App, key: string): Promise<readonly string[]> {
  if (key.endsWith('live')) await computed(app);
  else await app.sync.run([key]);
  const found: string[] = [];
  await app.sync.members(key, async ({ userIds }) => void found.push(...userIds));
  return found.toSorted();
}

/** Text of all tables and files, the cells of Parquet files included. Bytes of other files are read as Latin-1. */
export async function everything(folder: string, url: string): Promise<ReadonlyMap<string, string>> {
  const texts = new Map<string, string>();
  for (const path of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    const file = join(folder, path);
    if (statSync(file, { throwIfNoEntry: false })?.isFile() !== true) continue;
    texts.set(path, path.endsWith('.parquet') ? await parquetText(file) : readFileSync(file, 'latin1'));
  }
  if (!url.startsWith('postgres')) return texts;
  const client = new pg.Client(url);
  await client.connect();
  const tables = await client.query<{ name: string }>(
    "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname LIKE 'rollcall%'",
  );
  for (const { name } of tables.rows) {
    const { rows } = await client.query<{ text: string | null }>(
      `SELECT string_agg(r::text, ' ') AS text FROM ${name} AS r`,
    );
    texts.set(name, (rows[0]?.text ?? '').replaceAll('""', '"'));
  }
  await client.end();
  return texts;
}

async function parquetText(file: string): Promise<string> {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  // Small files are merged in the meantime.
  const result = await connection
    .run(`SELECT string_agg(CAST(row AS varchar), ' ') FROM read_parquet('${file}') AS row`)
    .catch((error: Error) => (existsSync(file) ? Promise.reject(error) : null));
  const [[text] = []] = (await result?.getRowsJS()) ?? [];
  connection.closeSync();
  instance.closeSync();
  return String(text ?? '');
}
