import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { rollcall, start } from '../cli/helpers.ts';

const START = fileURLToPath(new URL('../../examples/shop/start.ts', import.meta.url));

function shop(folder: string, ...args: readonly string[]) {
  const child = spawn(process.execPath, [START, ...args], {
    env: { ...process.env, SHOP_DATA: folder, NO_COLOR: '1' },
  });
  t.teardown(() => child.kill('SIGKILL'));
  return child;
}

async function runOnce(folder: string) {
  const child = shop(folder, '--once');
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { code, stdout, stderr };
}

t.test(
  'orders become memberships, time alone ends them, and the app agrees; whatever an earlier run left',
  async (t) => {
    const folder = t.testdir({ 'rollcall.db': 'not a database', 'audiences.duckdb': 'neither', 'running.pid': 'x' });
    const { code, stdout, stderr } = await runOnce(folder);
    t.equal(code, 0, stderr);
    t.match(stdout, /computed +big_spenders \(first sync\): 20 members, 20 entered, 0 left → 20 webhooks/);
    t.match(stdout, /verified +✓ +20 entered big_spenders \(first_sync, with email\): customer-01/);
    t.match(stdout, /verified +✓ +1 left lapsed_customers \(exited\): customer-42, [\d.]+ s after the order\n/);
    t.match(stdout, /verified +✓ +\d+ entered just_bought \(\w+\): /);
    t.match(
      stdout,
      /verified +✓ +\d+ left just_bought \(exited\): .* [5-9]\.\d\d s after the order\n/,
      'by time alone',
    );
    t.match(stdout, /verified +✓ +8 Order Completed/);
    t.match(stdout, /big_spenders +22 members; the app knows 22\n/);
    t.match(stdout, /lapsed_customers +12 members; the app knows 12\n/);
    t.match(stdout, /just_bought +0 members; the app knows 0\n/);
    t.match(stdout, /verified +✓ +1 entered abandoned_carts \(entered\): customer-60/, 'once its time has passed');
    t.match(stdout, /abandoned_carts +1 members; the app knows 1\n/);
    t.match(stdout, /126 webhooks sent and verified; the app and Rollcall agree\.\n$/);
    const log = await rollcall(['events', '--verify', '--json', '-c', join(folder, 'rollcall.yaml')]);
    t.match(
      JSON.parse(log.stdout),
      { events: 365, unsealed: 0, faults: [] },
      'its orders and customers are in the event log',
    );
  },
);

t.test('a second one in the same folder is told of the first', async (t) => {
  const folder = t.testdir();
  await writeFile(join(folder, 'running.pid'), String(process.pid));
  t.match(await runOnce(folder), { code: 1, stderr: `running already (process ${process.pid})` });
});

t.test('as a command it runs in a folder of its own, with a configuration for other commands', async (t) => {
  const folder = join(t.testdir(), 'demo');
  const running = start(['demo', folder, '--port', '65535']);
  await running.stdout.match(/rollcall +started; it takes messages at http/);
  await running.stdout.match(/Open http:\/\/127\.0\.0\.1:\d+\/#token=\S+ in a browser/);
  await running.stdout.match(/verified +✓ +20 entered big_spenders/);
  const config = join(folder, 'rollcall.yaml');
  t.match(await rollcall(['why', 'big_spenders', 'customer-01', '-c', config]), { code: 0, stdout: /customer-01/ });
  await running.stdout.match(/verified +✓ +1 entered just_bought \(entered\): customer-49/);
  t.match(await rollcall(['why', 'just_bought', 'customer-49', '-c', config]), { code: 0, stdout: /Order Completed/ });
  t.match(await rollcall(['plan', 'just_bought', '-c', config]), { code: 0 }, 'live ones can be planned, too');
  const { code, stdout } = await running.stop();
  t.equal(code, 0);
  t.notMatch(stdout, /found nobody/, 'a live audience may begin empty');
  t.match(await rollcall(['demo', folder, '--once']), { code: 0, stdout: /agree\.\n$/ });
});

t.test('Ctrl-C ends it at any moment, without a stack', async (t) => {
  const folder = join(t.testdir(), 'demo');
  const running = start(['demo', folder, '--port', '65535']);
  await running.stdout.match(/computes live/);
  t.match(await running.stop(), { code: 0, stderr: '' });
  const once = start(['demo', folder, '--once']);
  await once.stdout.match(/rollcall +started/);
  t.match(await once.stop(), { code: 1, stdout: /Interrupted\.\n$/, stderr: '' });
});

t.test('a folder with files of others is left alone', async (t) => {
  const others = t.testdir({ events: { 'a.parquet': 'precious' } });
  t.match(await rollcall(['demo', others]), { code: 2, stderr: /not the shop's, such as events/ });
  const folder = t.testdir({ 'rollcall.yaml': 'sources: []\n', 'rollcall.db': 'precious' });
  t.match(await rollcall(['demo', folder]), { code: 2, stderr: /not the shop's, such as rollcall\.yaml/ });
  t.equal(await readFile(join(folder, 'rollcall.db'), 'utf8'), 'precious');
});

t.test('it goes on until it is told to end', async (t) => {
  const child = shop(t.testdir());
  const seen: string[] = [];
  const startedAt = performance.now();
  for await (const line of createInterface({ input: child.stdout })) {
    seen.push(line);
    if (/verified +✓ +1 entered abandoned_carts \(entered\): customer-60/.test(line)) break;
  }
  t.ok(
    performance.now() - startedAt < 20_000,
    `an abandoned cart is seen in time: ${performance.now() - startedAt} ms`,
  );
  t.match(
    seen.join('\n'),
    /verified +✓ +1 entered just_bought \(entered\): /,
    'by an order that comes in once it runs',
  );
  t.match(seen.join('\n'), /computed +big_spenders \(first sync\)/);
  child.stdout.resume();
  child.kill('SIGINT');
  t.same(await once(child, 'close'), [0, null]);
});
