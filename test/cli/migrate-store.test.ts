import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { startFastPostgres } from '../helpers/postgres.ts';
import { until } from '../helpers/until.ts';
import { jsonLines, type Listener, listen, orders, type Request, rollcall, start, workspace } from './helpers.ts';

interface Arrival extends Request {
  readonly headers: Readonly<Record<string, string>>;
}

/** A receiver's state once it has taken everything: `user key → value`. */
function stateOf(arrivals: readonly Arrival[]): Record<string, unknown> {
  const taken = arrivals.filter(({ status, body }) => status === 200 && body.type === 'identify');
  const told = taken.flatMap(({ body }) =>
    Object.entries(body.traits ?? {}).map(([key, value]) => [`${body.userId} ${key}`, value]),
  );
  return Object.fromEntries(told);
}

const keysOf = (arrivals: readonly Arrival[]) => arrivals.map(({ headers }) => headers['idempotency-key']);
const stop = async (listener: Listener) => (await listener.stop()) as readonly Arrival[];

/** Posts a message to a service that is started for it. */
async function post(config: string, messageId: string): Promise<void> {
  const service = start(['serve', '-c', config]);
  const [url] = await service.stderr.match(/http:\/\/127\.0\.0\.1:\d+/);
  const response = await fetch(`${url}/v1/track`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa('personas-key:')}`, 'content-type': 'application/json' },
    body: JSON.stringify({ event: 'Hello', userId: 'ada', messageId }),
  });
  if (response.status !== 200) throw new Error(await response.text());
  await service.stop();
}

t.test('moves a store to Postgres completely, and the next sync sends only changes', async (t) => {
  const postgres = await startFastPostgres();
  t.teardown(() => postgres.stop());
  const [crm, refusing, late] = [await listen(t), await listen(t, '--fail', '400'), await listen(t)];
  const { folder, config } = await workspace(
    t,
    crm.url,
    `  - { name: Vips, source: personas, sql: "select user_id from read_csv('vips.csv', header = true)" }\n`,
  );
  await writeFile(join(folder, 'vips.csv'), 'user_id\nada\nbob\n');
  const others = (url: string) =>
    `  - { name: refusing, sources: [personas], webhookUrl: "${refusing.url}" }\n` +
    `  - { name: late, sources: [personas], webhookUrl: "${url}" }\n`;
  const text = await readFile(config, 'utf8');
  const configure = (url: string, store: string) =>
    writeFile(config, text.replace('audiences:', `${others(url)}audiences:`).replace(/^store: .*/, `store: ${store}`));
  await configure('http://127.0.0.1:9', 'sqlite:./rollcall.db');
  const sync = async (...keys: string[]) => {
    const result = await rollcall(['sync', ...keys, '--once', '--json', '-c', config]);
    return { ...result, runs: jsonLines<{ key: string; run: string; sent: number }>(result) };
  };

  t.match((await sync()).runs, [
    { key: 'big_spenders', sent: 2 },
    { key: 'vips', sent: 2 },
  ]);
  await post(config, 'm-1');
  await writeFile(join(folder, 'vips.csv'), 'user_id\n');
  const held = await sync('vips');
  t.equal(held.code, 3);

  const to = await postgres.database();
  const from = `sqlite:${join(folder, 'rollcall.db')}`;
  const service = start(['serve', '-c', config]);
  await service.stderr.match(/Listening/);
  t.match(await rollcall(['migrate', '--from', from, '--to', to]), { code: 2, stderr: /Stop it first/ });
  await service.stop();
  const moved = await rollcall(['migrate', '--from', from, '--to', to]);
  t.equal(moved.code, 0, moved.stderr);
  for (const line of ['5 pending deliveries', '5 dead letters', '1 message id', '3 runs', '2 audiences and traits']) {
    t.match(moved.stdout, new RegExp(`^ +${line}$`, 'm'));
  }
  t.notOk(existsSync(join(folder, 'rollcall.db')));

  await configure(late.url, to);
  const letters = jsonLines(await rollcall(['dead-letters', 'list', '--json', '-c', config]));
  t.equal(letters.length, 5);
  await post(config, 'm-1');
  await orders(folder, { ada: 60, bob: 100 });
  // Two changes, and ada's that the refusing receiver has not got.
  t.match((await sync('big_spenders')).runs, [{ key: 'big_spenders', first: false, entered: 1, exited: 1, sent: 3 }]);
  const approved = await rollcall(['approve', `${held.runs[0]?.run}`, '--yes', '-c', config]);
  t.equal(approved.code, 4, approved.stderr);
  const rest = start(['serve', '-c', config]);
  const pending = async () =>
    jsonLines<{ destination: string; pending: number }>(await rollcall(['endpoints', '--json', '-c', config])).reduce(
      (sum, each) => sum + each.pending,
      0,
    );
  await until(async () => (await pending()) === 0);
  await rest.stop();

  const expected = {
    ...{ 'ada big_spenders': true, 'bob big_spenders': true, 'cyd big_spenders': false },
    ...{ 'ada vips': false, 'bob vips': false },
  };
  const told = await stop(crm);
  t.equal(told.length, 9, 'four members, one message, two changes, two leavers');
  for (const arrivals of [told, await stop(late)]) {
    t.same(stateOf(arrivals), expected);
    t.equal(arrivals.filter(({ body }) => body.type === 'track').length, 1);
    t.equal(new Set(keysOf(arrivals)).size, arrivals.length, 'nothing came twice');
  }
});
