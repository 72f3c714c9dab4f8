import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { program } from '../helpers/programs.ts';
import { until } from '../helpers/until.ts';

const MAIN = program('test/helpers/armed-main.ts');
const LIMIT = 256;
const DESTINATIONS = 32;
const MESSAGES = 60;
/** Large enough to be synced from outside the store's thread. */
const LARGE = 1_500;

t.test('keeps running and delivers with too few file descriptors, and blames no endpoint', async (t) => {
  let arrived = 0;
  let held = 0;
  // Answers late, so that each destination needs many connections at once.
  const receiver = createServer((request, response) => {
    held += 1;
    request.resume().once('end', () => {
      setTimeout(() => {
        held -= 1;
        arrived += 1;
        response.end();
      }, 100);
    });
  });
  receiver.listen(0, '0.0.0.0');
  await once(receiver, 'listening');
  t.teardown(() => receiver.close().closeAllConnections());
  const { port } = receiver.address() as AddressInfo;
  const config = join(t.testdir(), 'rollcall.yaml');
  const destinations = Array.from({ length: DESTINATIONS }, (_, n) => ({
    ...{ name: `d${n}`, sources: ['shop'], sharedSecret: 's' },
    // An origin of its own.
    webhooks: [{ url: `http://127.0.0.${n + 1}:${port}/` }],
  }));
  writeFileSync(
    config,
    JSON.stringify({
      ...{ store: 'sqlite:./rollcall.db', listen: { host: '127.0.0.1', port: 0 } },
      network: { allow: ['127.0.0.0/8'] },
      sources: ['shop', 'quiet'].map((id) => ({ id, writeKey: id })),
      destinations,
    }),
  );
  const args = ['-c', `ulimit -n ${LIMIT} && exec "$0" "$@"`, process.execPath, MAIN, 'serve', '-c', config];
  const child = spawn('/bin/sh', args, {
    env: { ...process.env, NODE_OPTIONS: '' },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const exit = once(child, 'exit');
  let log = '';
  child.stderr.on('data', (chunk) => {
    log += chunk;
  });
  await until(async () => log.includes('answers at'));
  const address = /answers at (http:\/\/[\d.]+:\d+)/.exec(log)?.[1] ?? '';
  const post = async (source: string, count: number) => {
    const batch = Array.from({ length: count }, () => ({ type: 'track', event: 'e', userId: 'u' }));
    const response = await fetch(`${address}/v1/batch`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa(`${source}:`)}`, 'content-type': 'application/json' },
      body: JSON.stringify({ batch }),
    });
    return response.status;
  };
  t.equal(await post('shop', MESSAGES), 200);
  await until(async () => held > LIMIT / 2);
  t.equal(await post('quiet', LARGE), 200);
  await Promise.race([until(async () => arrived >= MESSAGES * DESTINATIONS), exit]);
  t.equal(child.exitCode, null, log);
  t.equal(arrived, MESSAGES * DESTINATIONS);
  t.equal(log.split('too few file descriptors').length, 2, 'logged once');
  t.notMatch(log, /"state":"dead"/);
  child.kill('SIGTERM');
  t.same(await exit, [0, null]);
});
