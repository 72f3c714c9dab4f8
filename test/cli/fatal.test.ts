import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { Ledger, SECRET } from '../crash/ledger.ts';
import { workspace } from './helpers.ts';

const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url));
const ARM = new URL('../helpers/arm.ts', import.meta.url).href;

/** The program in a process of its own, with little memory, in which a fault is to happen. */
function launch(t: Test, args: readonly string[], fault: string) {
  const child = spawn(process.execPath, ['--import', ARM, '--max-old-space-size=160', MAIN, ...args], {
    env: { ...process.env, NODE_OPTIONS: '', FAULT: fault },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const ended = Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]).then(
    ([stdout, stderr, [code, signal]]) => ({ stdout, stderr, code, signal }),
  );
  const address = new Promise<string>((resolve, reject) => {
    let said = '';
    child.stderr.on('data', (chunk: Buffer) => {
      said += chunk;
      const url = /http:\/\/[\d.]+:\d+/.exec(said)?.[0];
      if (url !== undefined) resolve(url);
    });
    child.once('close', () => reject(new Error(`it ended without an address: ${said}`)));
  });
  address.catch(() => {});
  return { ended, address };
}

async function send(address: string, messageId: string): Promise<number | null> {
  try {
    const response = await fetch(`${address}/v1/track`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa('personas-key:')}`, 'content-type': 'application/json' },
      body: JSON.stringify({ event: 'Bought', userId: 'u1', messageId }),
    });
    await response.arrayBuffer();
    return response.status;
  } catch {
    return null;
  }
}

for (const [fault, why] of [
  ['memory', /memory/],
  ['throw', /a fault that a test asked for/],
] as const) {
  t.test(
    `the store's thread dies (${fault}): the process ends with an error, and a restart loses nothing`,
    async (t) => {
      const ledger = new Ledger();
      const port = await ledger.listen();
      t.teardown(() => ledger.close());
      const { config } = await workspace(t, `http://127.0.0.1:${port}`, 'log: { level: info }\n');
      await writeFile(config, (await readFile(config, 'utf8')).replace('s3cret', SECRET));
      const broken = launch(t, ['start', '-c', config], `${fault} accept 30`);
      const address = await broken.address;
      const acknowledged: string[] = [];
      const statuses = new Set<number | null>();
      for (let sent = 0; sent < 1_000 && !statuses.has(null); sent += 1) {
        const status = await send(address, `m${sent}`);
        statuses.add(status);
        if (status === 200) acknowledged.push(`m${sent}`);
      }
      t.ok(acknowledged.length >= 25, `${acknowledged.length} acknowledged`);
      t.ok(
        [...statuses].every((status) => [200, 503, null].includes(status)),
        [...statuses].join(),
      );
      const { code, signal, stderr } = await broken.ended;
      t.same([code, signal], [1, null]);
      const lines = stderr
        .split('\n')
        .filter((line) => line.startsWith('{'))
        .map((line) => JSON.parse(line));
      const fatal = lines.filter(({ level }) => level === 60);
      t.match(fatal, [{ code: 'store_failed', msg: why }], 'one clear line with its code');
      t.match(stderr, /^store_failed: The store's thread ended/m);

      const whole = launch(t, ['start', '-c', config], '');
      const again = await whole.address;
      t.equal(await send(again, 'last'), 200);
      while (![...acknowledged, 'last'].every((id) => ledger.messages.has(id))) await ledger.accepted(1);
      t.equal(ledger.unverified, 0);
    },
  );
}

t.test('a command whose store dies exits with 1 and says why', async (t) => {
  const { config } = await workspace(t, 'http://127.0.0.1:9');
  const sync = launch(t, ['sync', '--once', '-c', config], 'throw accept 1');
  const { code, stderr } = await sync.ended;
  t.equal(code, 1);
  t.match(stderr, /store_failed/);
});

t.test('a store that dies while it is opened leaves nobody waiting', async (t) => {
  const { config } = await workspace(t, 'http://127.0.0.1:9');
  const start = launch(t, ['start', '-c', config], 'memory migration 1');
  const { code, stderr } = await start.ended;
  t.equal(code, 1);
  t.match(stderr, /store_failed: The store's thread could not start/);
});
