import { createHash, createHmac } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer as createHttpServer, type IncomingHttpHeaders } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { webhookBody } from '../../receivers/bodies.ts';
import { createReceiver } from '../../receivers/handle.ts';
import { sign } from '../../receivers/signature.ts';
import { examineDescriptors } from '../../src/cli/doctor/descriptors.ts';
import { Authority } from '../deliver/helpers/certificates.ts';
import { Receiver } from '../deliver/helpers/receiver.ts';
import { secureEndpoint } from '../deliver/helpers/secure-endpoint.ts';
import { filesOf, jsonLines, listen, rollcall, workspace } from './helpers.ts';

interface Finding {
  readonly check: string;
  readonly state: string;
  readonly message: string;
}

async function examine(config: string, ...args: readonly string[]) {
  const result = await rollcall(['doctor', '--json', '-c', config, ...args]);
  const findings = jsonLines<Finding>(result);
  return { ...result, find: (part: string) => findings.find(({ check }) => check.includes(part)) };
}

async function edit(config: string, from: string | RegExp, to: string): Promise<void> {
  await writeFile(config, (await readFile(config, 'utf8')).replace(from, to));
}

t.test('resolves names, checks addresses and says what to allow', async (t) => {
  const { config } = await workspace(t, 'http://127.0.0.1:9');
  t.match((await examine(config)).find('crm http'), {
    state: 'ok',
    message: /^resolves to 127\.0\.0\.1; not encrypted/,
  });
  await edit(config, '127.0.0.0/8', '10.0.0.0/8');
  const refused = await examine(config);
  t.equal(refused.code, 1);
  t.match(refused.find('crm http'), {
    state: 'failed',
    message: /127\.0\.0\.1, .* add 127\.0\.0\.1\/32 to network\.allow/,
  });
  await edit(config, 'http://127.0.0.1:9', 'http://no-such-host.invalid');
  t.match((await examine(config)).find('crm http'), {
    state: 'failed',
    message: /no-such-host\.invalid does not resolve/,
  });
});

t.test('names unusable folders with their faults, and goes on without the store', async (t) => {
  const { folder, config } = await workspace(t, 'http://127.0.0.1:9');
  const found = await examine(config);
  t.same(await filesOf(folder), [], 'it writes nothing');
  t.match(found.find(`folder ${folder}`), { state: 'ok', message: /^can be written, [\d.]+ GB free of [\d.]+ GB$/ });
  await edit(config, /^store: .*$/m, `store: sqlite:${folder}/away/rollcall.db`);
  const { code, find } = await examine(config);
  t.equal(code, 1);
  t.match(find('away'), {
    state: 'failed',
    message: /does not exist, and store needs it\. Make it: mkdir -p .*\/away$/,
  });
  t.match(find('store'), { state: 'failed', message: /away\/rollcall\.db: store_/ });
  t.match(find('crm http'), { state: 'ok' }, 'endpoints are looked at all the same');
  if (process.getuid?.() === 0) t.comment('rights do not bind this user: an unwritable folder was not tried');
  else {
    await mkdir(join(folder, 'away'));
    await chmod(join(folder, 'away'), 0o500);
    t.match((await examine(config)).find('away'), { state: 'failed', message: /can't be written by/ });
  }
});

t.test('warns if too few open files are allowed for the endpoints', async (t) => {
  t.match([...examineDescriptors(32, 256)], [{ state: 'warning', message: /only 256 .* 32 endpoints need 712/ }]);
  t.same([...examineDescriptors(32, 712)], []);
});

t.test('checks the folder of the event log before it exists', async (t) => {
  const { folder, config } = await workspace(t, 'http://127.0.0.1:9');
  const text = await readFile(config, 'utf8');
  const log = (path: string) => writeFile(config, `${text}\neventLog: { keep: 30d, path: ${path} }\n`);
  await log('./a/b/events');
  t.match(await examine(config), { code: 0 });
  await writeFile(join(folder, 'events'), 'a file in its place');
  for (const path of ['./events', './events/deeper']) {
    await log(path);
    const { code, find } = await examine(config);
    t.equal(code, 1);
    t.match(find(`folder ${folder}/events`), { state: 'failed', message: /^is a file, and the event log needs it/ });
  }
  await edit(config, /^store: .*$/m, 'store: postgres://u@127.0.0.1:1/rollcall');
  t.equal((await examine(config)).find(`folder ${folder}/events`), undefined, 'there it is a table');
});

t.test('checks that the proxy accepts connections', async (t) => {
  const { config } = await workspace(t, 'http://127.0.0.1:9');
  const proxy = createServer().listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const { port } = proxy.address() as AddressInfo;
  await edit(config, 'network: {', `network: { proxy: "http://me:hidden@127.0.0.1:${port}",`);
  const reached = await examine(config);
  t.match(reached.find('network.proxy'), { state: 'ok', message: `http://127.0.0.1:${port} takes connections` });
  t.match(reached.find('crm http'), { state: 'ok', message: /^is reached by network\.proxy/ });
  proxy.close();
  const { code, stdout, find } = await examine(config, '--send');
  t.equal(code, 1);
  t.match(find('network.proxy'), {
    state: 'failed',
    message: `http://127.0.0.1:${port} takes no connection (ECONNREFUSED), so that nothing can be sent`,
  });
  t.match(stdout, /"the test event got no answer: proxy_ECONNREFUSED after \d+ ms\. network\.proxy did not pass it on/);
  await edit(config, '127.0.0.0/8', '10.0.0.0/8');
  const refused = { state: 'failed', message: /^127\.0\.0\.1 is not a public address: nothing is sent there/ };
  t.match((await examine(config)).find('crm http'), refused, 'that is no question to the proxy');
});

t.test('checks each engine first, and skips definitions of engines that can not be opened', async (t) => {
  const engines =
    'engines: { default: { type: duckdb }, away: { type: postgres, url: "postgres://u:hidden@127.0.0.1:1/x" } }';
  const unreachable = '  - { name: Away, source: personas, engine: away, sql: select 1 as user_id }';
  const { config } = await workspace(t, 'http://127.0.0.1:9', `${unreachable}\n${engines}\n`);
  const { code, stdout, find } = await examine(config);
  t.equal(code, 1);
  t.match(find('engine default'), { state: 'ok', message: /^DuckDB v\d.* of memory, threads: \d+$/ });
  t.match(find('engine away'), { state: 'failed', message: /^engine_unreachable: .*127\.0\.0\.1:1/ });
  t.match(find('away'), { state: 'failed' });
  t.match(find('big_spenders'), { state: 'ok', message: '2 members' });
  t.match(stdout, /"check":"away","state":"warning","message":"was not tried: it needs the engine away"/);
  t.notMatch(stdout, /hidden/);
});

t.test('checks paused definitions, and says that they are paused', async (t) => {
  const paused = `  - { name: Asleep, source: personas, paused: true, sql: select 1 as user_id }
  - { name: Wrong, source: personas, paused: true, sql: "select nobody from read_csv('orders.csv')" }
  - { name: Put Aside, source: personas, sql: select 1 as user_id }
`;
  const { config } = await workspace(t, 'http://127.0.0.1:9', paused);
  await rollcall(['audiences', 'pause', 'put_aside', '-c', config]);
  const { code, find } = await examine(config);
  t.match(find('asleep'), { state: 'ok', message: 'paused in the configuration; 1 member' });
  t.match(find('wrong'), { state: 'failed', message: /^paused in the configuration; sql_failed: .*nobody/ });
  t.match(find('put_aside'), { state: 'ok', message: /^paused since \S+Z by cli:\S+; 1 member$/ });
  t.match(find('big_spenders'), { state: 'ok', message: '2 members' });
  t.equal(code, 1);
});

t.test('names concerns, and the command that shows more', async (t) => {
  const broken = '  - { name: Broken, source: personas, sql: select nobody from nowhere }\n';
  const { config } = await workspace(t, 'http://127.0.0.1:9', broken);
  await rollcall(['sync', 'broken', '--once', '-c', config]);
  t.match(await rollcall(['doctor', '-c', config]), {
    stdout: /^warning broken: failed with sql_failed: (?!broken).* rollcall runs broken -n 1 -c /m,
  });
  t.match((await examine(config)).find('broken'), { message: /^sql_failed: (?!broken)/ }, 'it is named once');
  t.match(await rollcall(['audiences', '-c', config]), {
    stderr: /^broken has failed since \S+ with sql_failed: (?!broken)/m,
  });
});

t.test('reports mistakes of the configuration as findings', async (t) => {
  const { config } = await workspace(t, 'http://127.0.0.1:9', 'serviceNam: x\n');
  const { code, find } = await examine(config);
  t.equal(code, 2);
  t.match(find('configuration'), {
    state: 'failed',
    message: /rollcall\.yaml:12:1: serviceNam .*Did you mean serviceName/,
  });
  t.match((await examine(`${config}.none`)).find('configuration'), { state: 'failed' });
});

t.test('checks that certificates are trusted, and when they expire', async (t) => {
  const authority = new Authority();
  t.teardown(() => authority.remove());
  const { server, port, seen } = await secureEndpoint(t, authority.issue('IP:127.0.0.1'));
  const { folder, config } = await workspace(t, `https://127.0.0.1:${port}`);
  t.match((await examine(config)).find('crm https'), {
    state: 'failed',
    message: /not trusted \(unknown_ca\).*network\.ca/,
  });
  await writeFile(join(folder, 'ca.pem'), authority.cert);
  await edit(config, 'network: { ', 'network: { ca: ca.pem, ');
  t.match((await examine(config)).find('crm https'), { state: 'ok', message: /good until \d{4}-\d\d-\d\d$/ });
  const day = (days: number) =>
    `${new Date(Date.now() + days * 86_400_000).toISOString().replaceAll(/[-T:]|\.\d+/g, '')}`;
  server.setSecureContext(authority.issue('IP:127.0.0.1', { from: day(-30), until: day(3) }));
  t.match((await examine(config)).find('crm https'), { state: 'warning', message: /in [23] days: renew it$/ });
  server.setSecureContext(authority.issue('IP:127.0.0.1', { from: day(-30), until: day(-3) }));
  t.match((await examine(config)).find('crm https'), { state: 'failed', message: /not trusted \(expired\)/ });
  t.equal(seen.requests, 0, 'and sends nothing');
});

t.test('warns of a header that nginx drops', async (t) => {
  const { config } = await workspace(t, 'http://127.0.0.1:9');
  await edit(config, /webhookUrl: ("[^"]*")/, 'webhooks: [{ url: $1, headers: { x_env: a, x-team: b } }]');
  const { stdout } = await rollcall(['doctor', '-c', config]);
  t.match(stdout, /crm: sends x_env: nginx drops headers with an underscore/);
  t.notMatch(stdout, /sends x-team/);
});

t.test('signs and posts a test event like a delivery, and explains the answer', async (t) => {
  const listener = await listen(t, '--secret', 's3cret');
  const { config } = await workspace(t, listener.url);
  t.match(await rollcall(['test', 'crm', '-c', config]), {
    code: 0,
    stdout: /: 200 in \d+ ms, signed by x-signature$/m,
  });
  t.match((await examine(config, '--send')).find('crm http'), { state: 'ok' });
  await edit(config, 's3cret', 'another');
  t.match(await rollcall(['test', 'crm', '-c', config]), {
    code: 1,
    stdout: /: 401 in /,
    stderr: /compare sharedSecret/,
  });
  t.match(jsonLines(await rollcall(['test', 'crm', '--json', '-c', config])), [
    { destination: 'crm', outcome: 'refused', status: 401, signatures: ['x-signature'], advice: /sharedSecret/ },
  ]);
  await edit(config, '127.0.0.0/8', '10.0.0.0/8');
  t.match(await rollcall(['test', 'crm', '-c', config]), {
    code: 1,
    stdout: /address_refused/,
    stderr: /network\.allow/,
  });
  t.match(await rollcall(['test', 'cmr', '-c', config]), { code: 2, stderr: /Did you mean crm\?/ });
  const requests = await listener.stop();
  t.match(requests[0], {
    signature: 'verified',
    body: { type: 'track', event: 'Rollcall Test', userId: 'rollcall-test' },
  });
  t.equal(requests.filter(({ status }) => status === 200).length, 2, 'what is refused is posted again, signed wrongly');
  await rollcall(['migrate', '-c', config]);
  const attempts = await rollcall(['attempts', '-c', config]);
  t.match(attempts, { stderr: /no such attempts.*rollcall endpoints/ }, 'none is in the attempt log');
  t.match(await rollcall(['sync', '--once', '-c', config]), { code: 4 });
  const said = new RegExp(
    `^address_refused: ${listener.url}\\S* resolves to .*network\\.allow.* rollcall doctor -c `,
    'm',
  );
  t.match(await rollcall(['attempts', '-c', config]), { stdout: /address_refused/, stderr: said });
  t.notMatch((await rollcall(['attempts', '--json', '-c', config])).stderr, /address_refused/);
});

t.test('posts any kind, a change of membership and a batch', async (t) => {
  const listener = await listen(t, '--secret', 's3cret');
  const { config } = await workspace(t, listener.url);
  const test = (...args: string[]) => rollcall(['test', 'crm', ...args, '-c', config]);
  const kinds = ['identify', 'track', 'page', 'screen', 'group', 'alias', 'delete'];
  for (const type of kinds) t.match(await test('--type', type, '--user', 'u9'), { code: 0 }, type);
  t.match(await test('--batch', '3'), { code: 0 });
  t.match(await test('--audience', 'big_spenders'), { code: 0 });
  await rollcall(['sync', '--once', '-c', config]);
  t.match(await test('--audience', 'big_spenders', '--user', 'ada'), { code: 0 });
  t.match(await test('--audience', 'big_spenders', '--user', 'nobody'), { code: 0 });
  t.match(await test('--audience', 'big_spender'), { code: 2, stderr: /Did you mean big_spenders\?/ });
  t.match(await test('--audience', 'big_spenders', '--type', 'page'), { code: 2, stderr: /cannot be used with/ });
  t.match(await test('--batch', '5000'), { code: 2, stderr: /from 1 to 4096/ });
  const bodies = (await listener.stop()).map(({ body }) => body as Record<string, unknown>);
  const [batch, made] = bodies.slice(kinds.length);
  t.same(
    bodies.slice(0, kinds.length).map((body) => [body['type'], body['userId'] ?? body['User ID']]),
    kinds.map((type) => [type, 'u9']),
  );
  t.match(batch, { batch: Array(3).fill({ type: 'track' }), keys: [String, String, String] });
  for (const body of [...bodies.slice(0, kinds.length), made]) t.ok(webhookBody.safeParse(body).success);
  const change = (member: boolean) => ({
    type: 'identify',
    traits: { big_spenders: member },
    context: { personas: { computation_class: 'audience', computation_key: 'big_spenders', sequence: undefined } },
  });
  t.match(made, { ...change(true), userId: 'rollcall-test' });
  const real = bodies.filter(({ context }) => (context as { test?: boolean } | undefined)?.test === true);
  t.match(real, [
    { ...change(true), userId: 'ada' },
    { ...change(false), userId: 'nobody' },
  ]);
});

t.test('posts a change in each form that the destination gets, with its columns', async (t) => {
  const listener = await listen(t, '--secret', 's3cret');
  const { config, folder } = await workspace(
    t,
    listener.url,
    `  - name: Fans
    source: personas
    with: [email, plan]
    sql: select user_id, email, plan from read_csv('fans.csv')
`,
  );
  await writeFile(join(folder, 'fans.csv'), 'user_id,email,plan\nada,ada@example.com,pro\n');
  await edit(config, 'name: crm,', 'name: crm, membership: both, columns: { plan: plain },');
  const test = (...args: string[]) => rollcall(['test', 'crm', '--audience', 'fans', ...args, '-c', config]);
  t.match(await test(), { code: 0 });
  t.match(await rollcall(['sync', '--once', '-c', config]), { code: 0 });
  t.match(await test('--user', 'ada'), { code: 0 });
  t.match(await test('--batch', '3'), { code: 0 });
  const bodies = (await listener.stop()).map(({ body }) => body as Record<string, unknown>);
  t.match(bodies.at(-1), { batch: [{ type: 'identify' }, { type: 'track' }, { type: 'identify' }] });
  const single = bodies.filter(({ messageId }) => String(messageId).startsWith('test-'));
  t.match(single, [
    { type: 'identify', traits: { fans: true } },
    { type: 'track', event: 'Audience Entered', properties: { audience_name: 'Fans', fans: true } },
    { type: 'identify', traits: { fans: true, plan: 'pro', email: undefined } },
    { type: 'track', properties: { fans: true, plan: 'pro', email: undefined }, context: { test: true } },
  ]);
});

t.test('posts what members are now, each in a request or all in a batch', async (t) => {
  const listener = await listen(t, '--secret', 's3cret');
  const { config, folder } = await workspace(
    t,
    listener.url,
    `  - name: Fans
    source: personas
    with: [email, plan]
    sql: select user_id, email, plan from read_csv('fans.csv')
`,
  );
  const users = ['ada', 'bob', 'cat', 'dan'];
  const rows = users.map((user) => `${user},${user}@example.com,pro`);
  await writeFile(join(folder, 'fans.csv'), ['user_id,email,plan', ...rows].join('\n'));
  await edit(config, 'name: crm,', 'name: crm, membership: track, columns: { email: sha256 },');
  const test = (...args: string[]) => rollcall(['test', 'crm', ...args, '-c', config]);
  t.match(await test('--sample', '3'), { code: 2, stderr: /goes with --audience/ });
  t.match(await test('--audience', 'fans', '--sample', '3', '--user', 'ada'), { code: 2, stderr: /cannot be used/ });
  t.match(await rollcall(['sync', '--once', '-c', config]), { code: 0 });
  t.match(await test('--audience', 'fans', '--sample', '3'), { code: 0 });
  await edit(config, 'membership: track', 'membership: both');
  await edit(config, /webhookUrl: ("[^"]*")/, 'webhooks: [{ url: $1, batch: { size: 50 } }]');
  t.match(await test('--audience', 'fans', '--sample', '2'), { code: 0 });
  const bodies = (await listener.stop()).map(({ body }) => body as Record<string, unknown>);
  const tests = bodies.filter(({ messageId, batch }) => batch !== undefined || String(messageId).startsWith('test-'));
  const hashed = (user: string) => createHash('sha256').update(`${user}@example.com`).digest('hex');
  const context = { test: true, personas: { computation_key: 'fans', sequence: undefined } };
  const event = (userId: string) => ({
    ...{ type: 'track', userId, event: 'Audience Entered', context },
    properties: { fans: true, email: hashed(userId), plan: undefined },
  });
  const identify = (userId: string) => {
    return { type: 'identify', userId, context, traits: { fans: true, email: hashed(userId), plan: undefined } };
  };
  t.match(tests, [
    ...['ada', 'bob', 'cat'].map(event),
    { batch: ['ada', 'bob'].flatMap((user) => [identify(user), event(user)]) },
  ]);
  t.equal(tests.length, 4);
});

/** A test event as Python writes it. */
const inPython = (body: Buffer) =>
  body
    .toString()
    .replaceAll(/([,:])(?=["\d{])/g, '$1 ')
    .replaceAll(/[\u0080-\uffff]/g, (unit) => `\\u00${unit.charCodeAt(0).toString(16)}`)
    // Not in times.
    .replaceAll(/(?<=\d): (?=\d)/g, ':');

t.test('names the mistake of a receiver that answers 401', async (t) => {
  const answers: Record<string, (body: Buffer, headers: IncomingHttpHeaders) => boolean> = {
    python: (body, headers) => headers['x-signature'] === sign(inPython(body), 's3cret'),
    base64: (body, headers) => headers['x-signature'] === createHmac('sha1', 's3cret').update(body).digest('base64'),
    other: () => false,
  };
  const receiver = await Receiver.start(t, (response, { path, headers, body }) => {
    const isRight = answers[path.slice(1)]?.(Buffer.from(body), headers) ?? false;
    const code = path === '/lost' ? 'signature_missing' : 'no';
    response.writeHead(isRight ? 200 : 401, { 'content-type': 'application/json' }).end(JSON.stringify({ code }));
  });
  const { origin } = new URL(receiver.url);
  const { config } = await workspace(t, origin);
  for (const [path, advice] of [
    ['python', /verify the bytes as they arrived/],
    ['base64', /X-Signature is hexadecimal/],
    ['lost', /a proxy before the receiver drops/],
    ['other', /compare sharedSecret/],
  ] as const) {
    await edit(config, /webhookUrl: "[^"]*"/, `webhookUrl: "${origin}/${path}"`);
    t.match(await rollcall(['test', 'crm', '-c', config]), { code: 1, stderr: advice }, path);
  }
});

t.test('shows that nothing handled a message', async (t) => {
  const hooks = createReceiver({ secret: 's3cret', on: { delete() {} }, log: { warn() {}, error() {} } });
  const server = createHttpServer(hooks.node);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const { config } = await workspace(t, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  t.match(await rollcall(['test', 'crm', '-c', config]), { code: 0, stdout: /: 200 unhandled in/ });
  t.match(await rollcall(['test', 'crm', '--batch', '2', '-c', config]), { code: 0, stdout: /: 200 unhandled in/ });
  t.match(await rollcall(['doctor', '--send', '-c', config]), {
    stdout: /answered the test event with 200 unhandled in/,
  });
  t.match(await rollcall(['sync', '--once', '-c', config]), { code: 0 });
  const attempts = jsonLines(await rollcall(['attempts', '--json', '-c', config]));
  t.match(attempts[0], { outcome: 'success', status: 200, error: 'unhandled' });
  t.match(await rollcall(['attempts', '-c', config]), { stdout: /unhandled/ });
  t.match(await rollcall(['why', 'big_spenders', 'ada', '-c', config]), { stdout: /200 unhandled at/ });
});

t.test('shows that a 2xx has rejected the test event of a batch', async (t) => {
  const answers = {
    '/cut': '{"rejected":[',
    '/wrong': '{"rejected":[{"index":7}]}',
    '/again': '{"rejected":[{"index":0,"code":"busy"}]}',
    '/no': '{"rejected":[{"index":0,"code":"bad","retry":false}]}',
  };
  const receiver = await Receiver.start(t, (response, { path }) => {
    const answer = Object.entries(answers).find(([start]) => path.startsWith(start))?.[1];
    response.writeHead(200, { 'content-type': 'application/json' }).end(answer);
  });
  const { origin } = new URL(receiver.url);
  const { config } = await workspace(t, origin);
  const webhooks = Object.keys(answers).map((path) => `{ url: "${origin}${path}", batch: { size: 5, wait: 50ms } }`);
  await edit(config, `webhookUrl: "${origin}/hooks"`, `webhooks: [${webhooks.join(', ')}]`);
  const { code, stdout, stderr } = await rollcall(['test', 'crm', '-c', config]);
  t.equal(code, 1);
  t.match(stdout, /cut: 200 invalid_answer in \d+ ms/);
  t.match(stdout, /wrong: 200 invalid_answer in/);
  t.match(stdout, /again: 200 rejected_busy in/);
  t.match(stdout, /no: 200 rejected_bad in/);
  t.match(
    stderr,
    /every message would be sent again[\s\S]*asks for the event once more[\s\S]*rejects the event itself/,
  );
});

t.test('advises on a test event that got no answer', async (t) => {
  const receiver = await Receiver.start(t, (response, { path }) => {
    if (path.startsWith('/gone')) response.writeHead(410).end();
    else if (path.startsWith('/other')) response.socket?.end('SSH-2.0-OpenSSH_9.9\r\n');
    else response.destroy();
  });
  const { origin, host } = new URL(receiver.url);
  const { config } = await workspace(t, origin);
  for (const [url, advice] of [
    [`${origin}/cut`, /closes the connection without an answer: does it speak https\?/],
    [`${origin}/other`, /does not speak HTTP/],
    [`https://${host}/`, /TLS handshake fails: does it speak http\?/],
    [`${origin}/gone`, /would pause the endpoint/],
    ['http://127.0.0.1:1/', /No connection/],
  ] as const) {
    await edit(config, /webhookUrl: "[^"]*"/, `webhookUrl: "${url}"`);
    t.match(await rollcall(['test', 'crm', '-c', config]), { code: 1, stderr: advice }, url);
  }
});

t.test('doctor, config check and plan show what filters let through', async (t) => {
  const { config } = await workspace(t, 'http://127.0.0.1:9');
  const wants = 'types: [track, delete], events: [Order Completed], audiences: []';
  await edit(config, '{ name: crm,', `{ name: crm, ${wants},`);
  t.match((await examine(config)).find('crm'), {
    check: 'crm',
    state: 'ok',
    message: 'gets only these types: track, delete; events: Order Completed; audiences and traits: none',
  });
  const checked = await rollcall(['config', 'check', '-c', config]);
  t.match(
    checked.stdout,
    /^crm gets only these types: track, delete; events: Order Completed; audiences and traits: none$/m,
  );
  const filters = [{ destination: 'crm', types: ['track', 'delete'], events: ['Order Completed'], audiences: [] }];
  t.match(jsonLines(await rollcall(['config', 'check', '--json', '-c', config])), [{ filters }]);
  const plan = await rollcall(['plan', '-c', config]);
  t.match(plan.stdout, /^ {2}nothing to crm, by the filters of the destination$/m);
  await edit(config, 'track, delete]', 'delete]');
  t.match(
    jsonLines<Finding>(await rollcall(['doctor', '--json', '-c', config])).filter(({ state }) => state === 'warning'),
    [{ check: 'configuration', message: /events has no effect: types is without track/ }],
  );
});
