import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { openTrino } from '../../../jobs/readers/trino.ts';
import { readAll } from './rows.ts';

/* What a real Trino can't be brought to answer; `npm run test:warehouses` reads one. */

type Leaf = { rawType: string; arguments: object[] };
const type = (rawType: string, ...arguments_: object[]): Leaf => ({ rawType, arguments: arguments_ });
const of = (value: Leaf) => ({ kind: 'TYPE', value });

interface Script {
  /** Types of the columns. */
  readonly columns?: Readonly<Record<string, Leaf>>;
  /** Pages after the first, and texts as they stand; a number is a status without one, twice if it is 503. */
  readonly pages: readonly (object | string | number)[];
  readonly host?: string;
}

/** Answers the second statement, the first of which only asks for columns, with these pages. */
async function start(t: Test, { columns = { id: type('varchar') }, pages, host }: Script) {
  const requests: string[] = [];
  const seen: Record<string, unknown>[] = [];
  const server = createServer(async (request, response) => {
    const { method, url = '' } = request;
    requests.push(`${method} ${url}`);
    seen.push(request.headers);
    const statement = await text(request);
    const { port } = server.address() as AddressInfo;
    const named = Object.entries(columns).map(([name, typeSignature]) => ({
      name,
      type: typeSignature.rawType,
      typeSignature,
    }));
    const next = (place: number) => ({ nextUri: `${host ?? `http://127.0.0.1:${port}`}/v1/statement/q/${place}` });
    const say = (page: object) => response.end(JSON.stringify({ id: 'q', stats: { state: 'FINISHED' }, ...page }));
    if (method === 'DELETE') return response.writeHead(204).end();
    if (method === 'POST')
      return say(
        statement.startsWith('SELECT * FROM (')
          ? { columns: named }
          : { ...next(0), columns: named, stats: { state: 'RUNNING' } },
      );
    const place = Number(url.split('/').at(-1));
    const page = pages[place] ?? 500;
    const goesOn = place < pages.length - 1 ? { ...next(place + 1), stats: { state: 'RUNNING' } } : {};
    const asks = requests.filter((each) => each === `GET ${url}`).length;
    if (page === 503 && asks > 2) return say(goesOn);
    if (typeof page === 'number') return response.writeHead(page).end('<html>');
    return typeof page === 'string' ? response.end(page) : say({ ...goesOn, ...page });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const reader = await openTrino({ type: 'trino', url: `http://me@127.0.0.1:${port}/lake/web` }, { timeout: 1_000 });
  t.teardown(() => reader.close());
  return { reader, requests, seen };
}

const SQL = 'select id from people';

t.test('a query that fails or ends half-way is no end', async (t) => {
  const data = [['a'], ['b']];
  const error = { message: 'line 1:8: no', errorName: 'SYNTAX_ERROR', errorType: 'USER_ERROR' };
  for (const [pages, code] of [
    [[{ data }, { error: { ...error, errorType: 'INSUFFICIENT_RESOURCES' } }], 'engine_failed'],
    [[{ data }, { error: { ...error, errorName: 'USER_CANCELED' } }], 'engine_failed'],
    [[{ data }, { error: { ...error, errorLocation: { lineNumber: 1, columnNumber: 8 } } }], 'sql_failed'],
    [[{ data }, { stats: { state: 'FAILED' } }], 'source_incomplete'],
    [[{ data }, { stats: { state: 'RUNNING' } }], 'source_incomplete'],
    [[{ data }, '{"id":"q","stats":{"state":"FINI'], 'engine_unreachable'],
    [[{ data }, '{}'], 'engine_unreachable'],
    [[{ data }, 401], 'engine_unreachable'],
    [[{ data: [['a', 'b']] }], 'source_incomplete'],
  ] as const) {
    const { reader } = await start(t, { pages });
    await t.rejects(readAll(reader, SQL), { code }, JSON.stringify(pages));
  }
  const { reader } = await start(t, { pages: [{ data }, { data: [['c']] }, {}] });
  t.same(await readAll(reader, SQL), [['a'], ['b'], ['c']]);
});

t.test('goes on where a server is busy, sends its password nowhere else, and cancels what nobody reads', async (t) => {
  const busy = await start(t, { pages: [503, {}] });
  t.same(await readAll(busy.reader, SQL), []);
  const elsewhere = await start(t, { host: 'http://192.0.2.1:1', pages: [{ data: [['a']] }, {}] });
  t.same(await readAll(elsewhere.reader, SQL), [['a']], 'the host of an answer counts for nothing');
  const { batches } = await elsewhere.reader.query({ sql: SQL, now: 0 });
  for await (const _ of batches) break;
  t.equal(elsewhere.requests.at(-1), 'DELETE /v1/statement/q/1');
  t.match(elsewhere.seen[0], {
    ...{ 'x-trino-user': 'me', 'x-trino-catalog': 'lake', 'x-trino-schema': 'web', 'x-trino-time-zone': 'UTC' },
    'x-trino-session': 'query_max_run_time=31s',
  });
});

t.test('keeps every digit, reads times in UTC, and values within values', async (t) => {
  const entry = (name: string, typeSignature: Leaf) => ({
    kind: 'NAMED_TYPE',
    value: { fieldName: { name }, typeSignature },
  });
  const columns = {
    big: type('bigint'),
    price: type('decimal', { kind: 'LONG', value: 12 }, { kind: 'LONG', value: 2 }),
    at: type('timestamp with time zone'),
    code: type('char'),
    list: type('array', of(type('double'))),
    map: type('map', of(type('varchar')), of(type('bigint'))),
    row: type('row', entry('at', type('timestamp')), entry('tags', type('array', of(type('varchar'))))),
    raw: type('varbinary'),
  };
  const row = `[9007199254740993,"12.50","2026-03-01 14:00:00.250 Europe/Berlin","a  ",[0.1,"NaN",null],
    {"n":9007199254740993},["2026-03-01 12:00:00.000",["x, 1234567890123456789",null]],"AA=="]`;
  const { reader } = await start(t, { columns, pages: [`{"id":"q","stats":{"state":"FINISHED"},"data":[${row}]}`] });
  const { columns: found } = await reader.query({ sql: SQL, now: 0 });
  t.same(
    found.map(({ kind }) => kind),
    ['integer', 'decimal', 'timestamp', 'text', 'json', 'json', 'json', 'binary'],
  );
  t.same(await readAll(reader, SQL), [
    [
      ...['9007199254740993', '12.50', new Date('2026-03-01T13:00:00.250Z'), 'a', '[0.1,null,null]'],
      ...['{"n":9007199254740993}', '{"at":"2026-03-01T12:00:00.000Z","tags":["x, 1234567890123456789",null]}', 'AA=='],
    ],
  ]);
});
