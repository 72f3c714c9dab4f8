import { type ChildProcess, execFile } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { Client, type Loss } from '../../src/client/index.ts';
import { folder } from './folder.ts';
import { deadEndpoint, service, success } from './service.ts';

const host = fileURLToPath(new URL('./fixtures/host.ts', import.meta.url));
const all = [...Array(25).keys()].map(String);

const track = (client: Client, ...events: string[]) => {
  for (const event of events) client.track({ userId: 'u', event });
};

/** Runs a program that queues 25 messages and is killed with SIGKILL before any is sent. */
async function killed(spool: string): Promise<void> {
  const child = execFile(process.execPath, [host, 'kill', 'http://127.0.0.1:1', spool]);
  const [, signal] = await once(child, 'exit');
  if (signal !== 'SIGKILL') throw new Error(`ended by ${signal}`);
}

t.test('sends the queue of a killed process from the next one, once and in order', async (t) => {
  const spool = path.join(folder(t), 'spool');
  await killed(spool);
  const { endpoint, events, requests } = await service(t);
  const client = new Client('SECRET-KEY', { endpoint, spool });
  t.equal(client.queued, 25);
  track(client, 'new');
  t.same(await client.close(), { sent: 26, failed: 0, dropped: 0 });
  t.same(events(), [...all, 'new']);
  t.equal(new Set(requests.flatMap(({ batch }) => batch.map((m) => m['messageId']))).size, 26);
  t.same(fs.readdirSync(spool), []);
});

t.test("names a spool's folder that can't be made, at once", (t) => {
  const file = path.join(folder(t), 'file');
  fs.writeFileSync(file, '');
  const folders = [file, path.join(file, 'spool'), ...(process.platform === 'linux' ? ['/proc/x', '/proc/x/y'] : [])];
  for (const spool of folders) {
    const error = { code: 'bad_configuration', field: 'spool', message: `the spool ${spool} can't be used` };
    t.throws(() => new Client('k', { spool }), error);
  }
  const deep = path.join(folder(t), 'a', 'b', 'c');
  const client = new Client('k', { spool: deep });
  t.ok(fs.existsSync(deep));
  t.teardown(() => client.close({ timeout: 0 }));
  t.end();
});

t.test('loses no queued message if the process is killed while sending', async (t) => {
  const spool = folder(t);
  let child: ChildProcess | undefined;
  const { endpoint, requests } = await service(t, (r, n) => (n === 3 ? child?.kill('SIGKILL') : r.reply(200, success)));
  child = execFile(process.execPath, [host, 'stream', endpoint, spool]);
  await once(child, 'exit');
  const next = new Client('SECRET-KEY', { endpoint, spool });
  const left = next.queued;
  t.same(await next.close(), { sent: left, failed: 0, dropped: 0 });
  const first = new Map(requests.flatMap(({ batch }) => batch.map((m) => [m['messageId'], m['event']])));
  t.ok(left > 0);
  t.same([...first.values()], [...Array(first.size).keys()].map(String));
});

t.test('loses nothing in several crashes in a row', async (t) => {
  const spool = folder(t);
  await killed(spool);
  await killed(spool);
  const { endpoint, events } = await service(t);
  const client = new Client('SECRET-KEY', { endpoint, spool });
  t.same(await client.close(), { sent: 50, failed: 0, dropped: 0 });
  t.same(events(), [...all, ...all]);
});

t.test('retries messages that were in the spool for longer than retryFor', async (t) => {
  const spool = folder(t);
  await killed(spool);
  const [file = ''] = fs.readdirSync(spool);
  fs.renameSync(path.join(spool, file), path.join(spool, file.replace(/-\d{13}-/, '-0000000000000-')));
  const { endpoint, requests } = await service(t, (r, n) => r.reply(n === 0 ? 503 : 200, success));
  const client = new Client('SECRET-KEY', { endpoint, spool });
  t.same(await client.close(), { sent: 25, failed: 0, dropped: 0 });
  t.equal(requests.length, 2);
});

t.test('reports a message cut off by a crash and sends the others', async (t) => {
  const spool = folder(t);
  await killed(spool);
  const [file = ''] = fs.readdirSync(spool);
  const { size } = fs.statSync(path.join(spool, file));
  fs.truncateSync(path.join(spool, file), size - 10);
  const { endpoint, events } = await service(t);
  const losses: Loss[] = [];
  const client = new Client('SECRET-KEY', { endpoint, spool, onLoss: (loss) => losses.push(loss) });
  t.same(await client.close(), { sent: 24, failed: 0, dropped: 1 });
  t.same(events(), all.slice(0, 24));
  t.match(losses, [{ outcome: 'dropped', reason: 'spool_damaged', count: 1, messages: [] }]);
});

t.test('takes no files of another write key or of another kind', async (t) => {
  const spool = folder(t);
  fs.writeFileSync(path.join(spool, 'notes.txt'), 'mine');
  await killed(spool);
  const client = new Client('OTHER-KEY', { endpoint: 'http://127.0.0.1:1', spool });
  t.equal(client.queued, 0);
  await client.close();
  t.equal(fs.readdirSync(spool).length, 2);
});

t.test('takes no files of a live client', async (t) => {
  const spool = folder(t);
  const endpoint = await deadEndpoint();
  const onLoss = () => {};
  const living = new Client('KEY', { endpoint, spool, onLoss });
  track(living, 'a');
  const second = new Client('KEY', { endpoint, spool, onLoss });
  t.equal(second.queued, 0);
  await Promise.all([living.close({ timeout: 0 }), second.close({ timeout: 0 })]);
});

t.test(
  'leaves messages not sent by the deadline of close to the next client, neither failed nor dropped',
  async (t) => {
    const spool = folder(t);
    const first = new Client('KEY', { endpoint: await deadEndpoint(), spool });
    track(first, 'a', 'b');
    t.same(await first.close({ timeout: 0 }), { sent: 0, failed: 0, dropped: 0 });
    const { endpoint, events } = await service(t);
    const second = new Client('KEY', { endpoint, spool });
    t.same(await second.close(), { sent: 2, failed: 0, dropped: 0 });
    t.same(events(), ['a', 'b']);
  },
);

t.test('removes a refused batch from the spool, so that no restart brings it back', async (t) => {
  const spool = folder(t);
  const { endpoint } = await service(t, (r) => r.reply(400));
  const client = new Client('KEY', { endpoint, spool, onLoss: () => {} });
  track(client, 'a');
  t.same(await client.close(), { sent: 0, failed: 1, dropped: 0 });
  t.same(fs.readdirSync(spool), []);
});

t.test('creates files that only their owner can read', async (t) => {
  const spool = folder(t);
  await killed(spool);
  const [file = ''] = fs.readdirSync(spool);
  t.equal(fs.statSync(path.join(spool, file)).mode & 0o777, 0o600);
});

t.test('warns of a failing disk and sends the messages from memory', async (t) => {
  const spool = path.join(folder(t), 'spool');
  const { endpoint, events } = await service(t);
  const client = new Client('KEY', { endpoint, spool });
  fs.rmdirSync(spool);
  const warned = once(process, 'warning');
  track(client, 'a', 'b');
  t.match((await warned)[0], { message: /the spool does not keep messages/ });
  t.same(await client.close(), { sent: 2, failed: 0, dropped: 0 });
  t.same(events(), ['a', 'b']);
});
