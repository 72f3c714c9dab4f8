import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { deadEndpoint, service, success, tls } from './service.ts';

const fixture = (name: string) => fileURLToPath(new URL(`./fixtures/${name}.ts`, import.meta.url));

/** Runs fixtures/host.ts to its end. */
const run = (args: string[], env?: NodeJS.ProcessEnv) => runFile([fixture('host'), ...args], env);

function runFile(
  args: string[],
  env: NodeJS.ProcessEnv = {},
): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, args, { env: { ...process.env, ...env } }, (_, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    );
  });
}

const all = [...Array(25).keys()].map(String);

t.test('delivers the messages of a program that just ends', async (t) => {
  const { endpoint, events } = await service(t);
  const { code, stderr } = await run(['end', endpoint]);
  t.equal(code, 0);
  t.equal(stderr, '');
  t.same(events(), all);
});

t.test('does not keep the process alive while idle', async (t) => {
  const { endpoint, requests } = await service(t);
  t.match(await run(['idle', endpoint]), { code: 0, stderr: '' });
  t.equal(requests.length, 0);
});

for (const way of ['await close', 'await flush']) {
  t.test(`settles ${way} at the top level with nothing else alive`, async (t) => {
    const { endpoint, events } = await service(t);
    const { code, stdout } = await run([way, endpoint]);
    t.equal(code, 0);
    t.same(JSON.parse(stdout), { sent: 25, failed: 0, dropped: 0 });
    t.same(events(), all);
  });
}

t.test('waits for closeTimeout and reports losses if the service hangs when a program ends', async (t) => {
  const { endpoint, request, requests } = await service(t, () => {});
  const { code, stderr } = await run(['unreachable', endpoint]);
  t.equal(code, 0);
  await request(0);
  t.equal(requests.length, 1);
  t.match(stderr, /dropped \(deadline\)/);
});

t.test('waits for closeTimeout and reports losses if the service is dead when a program ends', async (t) => {
  const { code, stderr } = await run(['unreachable', await deadEndpoint()]);
  t.equal(code, 0);
  t.match(stderr, /dropped \(deadline\)/);
});

for (const way of ['process.exit', 'throw']) {
  t.test(`reports the number of lost messages at ${way}`, async (t) => {
    const { endpoint } = await service(t, () => {});
    const { stderr } = await run([way, endpoint]);
    t.match(stderr, /dropped \(exit\): the process exited before close\(\)/);
  });
}

t.test('logs to stderr with DEBUG=analytics, but never the write key', async (t) => {
  const { endpoint } = await service(t);
  const { stderr } = await run(['await close', endpoint], { DEBUG: 'analytics', DEBUG_COLORS: '0' });
  t.match(stderr, /analytics track queued, 1 in the queue/);
  t.match(stderr, /analytics sending 20 messages/);
  t.match(stderr, /analytics 20 messages sent/);
  t.notMatch(stderr, 'SECRET-KEY');
});

t.test('sends by https only to a service with a trusted certificate', async (t) => {
  const { endpoint, events } = await service(t, (r) => r.reply(200, success), 'https');
  const { stderr } = await run(['unreachable', endpoint]);
  t.match(stderr, /dropped \(deadline\)/);
  t.same(events(), []);
  const { stdout } = await run(['await close', endpoint], { NODE_EXTRA_CA_CERTS: fileURLToPath(tls.cert) });
  t.same(JSON.parse(stdout), { sent: 25, failed: 0, dropped: 0 });
  t.same(events(), all);
});
