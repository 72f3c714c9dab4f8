import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import t, { type Test } from 'tap';
import { openSession } from '../../jobs/engines/clickhouse/session.ts';
import { systemClock } from '../../src/kernel/clock.ts';

/* What servers and proxies answer that chdb can't be brought to. */

const ERROR = 'Code: 241. DB::Exception: (total) memory limit exceeded. (MEMORY_LIMIT_EXCEEDED) (version 25.3.1.1)\n';

async function sessionWith(t: Test, answer: (response: ServerResponse, parameters: URLSearchParams) => void) {
  const server = createServer((request, response) => {
    request.resume().on('end', () => answer(response, new URL(request.url ?? '/', 'http://server').searchParams));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const config = { type: 'clickhouse', url: `http://127.0.0.1:${port}`, database: 'rollcall', settings: {} } as const;
  const session = await openSession(config, { folder: import.meta.dirname, token: () => systemClock.token(12) });
  t.teardown(async () => {
    await session.close();
    server.close();
  });
  return session;
}

t.test('detects an error at the end of a response, on every server version', async (t) => {
  const late = await sessionWith(t, (response, parameters) => {
    const isRow = parameters.get('http_write_exception_in_output_format') !== '0';
    response.end(`["a"]\n${isRow ? `${JSON.stringify([ERROR])}\n` : ERROR}`);
  });
  const failed = { code: 'engine_failed', message: /^\(total\) memory limit exceeded\. Give it more/ };
  await t.rejects(late.rows('select 1'), failed, 'before 25.11');
  const stream = late.stream('select 1');
  await t.rejects(async () => {
    for await (const _rows of stream);
  }, failed);
  const marked = await sessionWith(t, (response) => {
    response.setHeader('x-clickhouse-exception-tag', 'TAG');
    response.end(`["a"]\n\r\n__exception__\r\nTAG\r\n${ERROR}${ERROR.length} TAG\r\n__exception__\r\n`);
  });
  await t.rejects(marked.rows('select 1'), failed, 'since then');
  const begun = await sessionWith(t, (response) => {
    response.setHeader('x-clickhouse-exception-code', '241');
    response.end(ERROR);
  });
  await t.rejects(begun.run('insert'), failed, 'after the first progress');
});

t.test('reads the many progress headers of statements that take hours', async (t) => {
  const slow = await sessionWith(t, (response) => {
    const progress = JSON.stringify({ read_rows: '2752512000', of: 'x'.repeat(200) });
    response.setHeader('x-clickhouse-progress', Array(500).fill(progress));
    response.end('["a"]\n');
  });
  t.same(await slow.rows('select 1'), [['a']]);
  await slow.run('insert');
});

t.test('rejects responses that are not from ClickHouse', async (t) => {
  const answers: ((response: ServerResponse) => void)[] = [
    (response) => response.writeHead(302, { location: 'https://login.example.com/' }).end(),
    (response) => response.writeHead(502).end('<html>\r\n<h1>Bad Gateway</h1>\r\n'),
    (response) => response.end('<html>\nWelcome\n</html>\n'),
  ];
  for (const answer of answers) {
    const session = await sessionWith(t, answer);
    const none = { code: 'engine_unreachable', message: /127\.0\.0\.1:\d+: what answers is not ClickHouse\./ };
    await t.rejects(session.rows('select 1'), none);
  }
});
