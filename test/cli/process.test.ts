import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { request } from 'undici';
import { program } from '../helpers/programs.ts';
import { type Finished, jsonLines, type Request, workspace } from './helpers.ts';

const MAIN = program('src/cli/main.ts');

interface Options {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** The command line as users have it: in a process of its own. */
function launch(args: readonly string[], { cwd, env }: Options = {}): ChildProcess {
  return spawn(process.execPath, [MAIN, ...args], {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

async function run(args: readonly string[], options?: Options): Promise<Finished> {
  const child = launch(args, options);
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout as NodeJS.ReadableStream),
    text(child.stderr as NodeJS.ReadableStream),
    once(child, 'close'),
  ]);
  return { code, stdout, stderr };
}

/** The first line of stderr with an address, and the address. */
async function addressOf(child: ChildProcess): Promise<string> {
  for await (const line of createInterface({ input: child.stderr as NodeJS.ReadableStream })) {
    const url = /http:\/\/[\d.]+:\d+/.exec(line)?.[0];
    if (url !== undefined) return url;
  }
  throw new Error('the process ended without an address');
}

t.test('prints help on stdout, and usage errors on stderr with exit code 2', async (t) => {
  t.match(await run(['--help']), { code: 0, stdout: /^Usage: rollcall/, stderr: '' });
  t.match(await run(['lisen']), { code: 2, stdout: '', stderr: /Did you mean listen\?/ });
});

t.test('resolves files in the folder where npm was run', async (t) => {
  const cwd = fileURLToPath(new URL('../../examples/shop/', import.meta.url));
  const npm = spawn('npm', ['run', '-s', 'rollcall', '--', 'config', 'check', '-c', 'rollcall.yaml'], { cwd });
  const [stdout, [code]] = await Promise.all([text(npm.stdout), once(npm, 'close')]);
  t.equal(code, 0);
  t.match(stdout, /^rollcall\.yaml is valid: 3 sources, 1 destination, 4 audiences, 1 trait/);
});

t.test('exits 2 on a mistake of the configuration, and names its line', async (t) => {
  const folder = t.testdir();
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a variable of the configuration file
  await writeFile(join(folder, 'rollcall.yaml'), 'sources:\n  - { id: shop, writeKey: "${SHOP_KEY}" }\n');
  t.match(await run(['start'], { cwd: folder }), {
    code: 2,
    stderr: /rollcall\.yaml:2:\d+: sources\[0\]\.writeKey .*SHOP_KEY/,
  });
  const env = { SHOP_KEY: 'x', ROLLCALL_CONFIG: join(folder, 'rollcall.yaml') };
  t.match(await run(['config', 'check'], { env }), { code: 0, stdout: /is valid/ });
  const empty = { SHOP_KEY: 'x', ROLLCALL_CONFIG: '' };
  t.match(await run(['config', 'check'], { cwd: folder, env: empty }), { code: 0, stdout: /^rollcall\.yaml is valid/ });
});

t.test('treats an empty token or secret of the environment as none', async (t) => {
  const authorizations: (string | undefined)[] = [];
  const service = createServer(({ headers }, response) => {
    authorizations.push(headers.authorization);
    response.end();
  });
  service.listen(0, '127.0.0.1');
  await once(service, 'listening');
  t.teardown(() => service.close());
  const { port } = service.address() as AddressInfo;
  const config = join(t.testdir(), 'rollcall.yaml');
  await writeFile(
    config,
    `listen: { port: ${port} }\nadmin: { token: ${'t'.repeat(32)} }\nsources: [{ id: a, writeKey: k }]\n`,
  );
  t.match(await run(['config', 'reload', '-c', config], { env: { ROLLCALL_TOKEN: '' } }), { code: 0 });
  t.same(authorizations, [`Bearer ${'t'.repeat(32)}`]);
  const listener = launch(['listen', '--port', '0'], { env: { ROLLCALL_SECRET: '' } });
  t.teardown(() => listener.kill('SIGKILL'));
  for await (const line of createInterface({ input: listener.stderr as NodeJS.ReadableStream })) {
    t.match(line, /^Listening on http:\S+\. Ctrl-C ends it\.$/);
    break;
  }
});

t.test('sends signed messages to a listener, from another folder', async (t) => {
  const listener = launch(['listen', '--port', '0', '--json'], { env: { ROLLCALL_SECRET: 's3cret' } });
  t.teardown(() => listener.kill('SIGKILL'));
  const printed = text(listener.stdout as NodeJS.ReadableStream);
  const { config } = await workspace(t, await addressOf(listener));
  const sync = await run(['sync', '--once', '--json', '-c', config], { cwd: t.testdir() });
  t.equal(sync.code, 0, sync.stderr);
  t.match(jsonLines(sync), [{ key: 'big_spenders', first: true, entered: 2, sent: 2 }]);
  listener.kill('SIGINT');
  t.match(jsonLines<Request>({ stdout: await printed }), [
    { signature: 'verified', status: 200, body: { type: 'identify' } },
    { signature: 'verified', status: 200, body: { type: 'identify' } },
  ]);
});

t.test('accepts messages until SIGTERM, and ends with exit code 0', async (t) => {
  const listener = launch(['listen', '--port', '0', '--json']);
  t.teardown(() => listener.kill('SIGKILL'));
  const received = createInterface({ input: listener.stdout as NodeJS.ReadableStream })[Symbol.asyncIterator]();
  const { config } = await workspace(t, await addressOf(listener), 'log: { level: info }\n');
  const service = launch(['start', '-c', config]);
  t.teardown(() => service.kill('SIGKILL'));
  const url = await addressOf(service);
  const { statusCode, body } = await request(`${url}/v1/track`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa('personas-key:')}`, 'content-type': 'application/json' },
    body: JSON.stringify({ event: 'Hello', userId: 'u1' }),
  });
  await body.dump();
  t.equal(statusCode, 200);
  t.match(JSON.parse(String((await received.next()).value)), { body: { type: 'track', event: 'Hello', userId: 'u1' } });
  const code = once(service, 'close');
  service.stderr?.destroy();
  service.kill('SIGTERM');
  t.same(await code, [0, null], 'although nobody reads its log any more');
});

t.test("ends with one line if the output can't be written", { skip: !existsSync('/dev/full') }, async (t) => {
  const full = openSync('/dev/full', 'w');
  t.teardown(() => closeSync(full));
  const child = spawn(process.execPath, [MAIN, 'config', 'schema'], { stdio: ['ignore', full, 'pipe'] });
  const [stderr, [code]] = await Promise.all([text(child.stderr as NodeJS.ReadableStream), once(child, 'close')]);
  t.equal(code, 1);
  t.match(stderr, /^The output can't be written: ENOSPC.*\n$/);
});

t.test('finishes a sync that was killed while it sent, by the same command', async (t) => {
  const members = new Map<string, { value: boolean; sequence: number }>();
  const first = Promise.withResolvers<void>();
  const keys = new Map<string, Set<string>>();
  const receiver = createServer(async (request, response) => {
    const body = await text(request).catch(() => null);
    // The killed one may leave half of a request.
    if (body === null) return;
    const { userId, traits, context } = JSON.parse(body);
    const { sequence } = context.personas;
    const known = members.get(userId);
    if (!known || known.sequence <= sequence) members.set(userId, { value: traits.everybody, sequence });
    keys.set(userId, (keys.get(userId) ?? new Set()).add(String(request.headers['idempotency-key'])));
    response.end(() => first.resolve());
  });
  receiver.listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  t.teardown(() => receiver.close());
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
  const folder = t.testdir();
  const config = join(folder, 'rollcall.json');
  await writeFile(
    config,
    JSON.stringify({
      store: 'sqlite:./rollcall.db',
      network: { allow: ['127.0.0.0/8'] },
      sources: [{ id: 'personas', writeKey: 'key' }],
      destinations: [{ name: 'crm', sources: ['personas'], sharedSecret: 's', webhookUrl: url, rateLimit: '200/s' }],
      engines: { lake: { type: 'duckdb', path: './audiences.duckdb' } },
      audiences: [
        { name: 'Everybody', source: 'personas', sql: 'select range::varchar as user_id from range(1, 401)' },
      ],
    }),
  );
  const killed = launch(['sync', '--once', '-c', config]);
  await first.promise;
  killed.kill('SIGKILL');
  await once(killed, 'close');
  t.ok(members.size < 400, `${members.size} had arrived`);
  const again = await run(['sync', '--once', '--json', '-c', config]);
  t.equal(again.code, 0, again.stderr);
  t.equal([...members.values()].filter(({ value }) => value).length, 400);
  t.ok(
    [...keys.values()].every(({ size }) => size === 1),
    'what came again came with its key',
  );
});
