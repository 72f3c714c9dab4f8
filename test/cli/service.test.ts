import { readFile, rename, writeFile } from 'node:fs/promises';
import t from 'tap';
import { jsonLines, listen, orders, type Running, rollcall, start, workspace } from './helpers.ts';

const LISTENING = /http:\/\/127\.0\.0\.1:(\d+)/;

/** A service on a port that its configuration names from then on. */
async function serve(config: string): Promise<{ service: Running; port: string }> {
  const service = start(['serve', '-c', config]);
  const [, port = ''] = await service.stderr.match(LISTENING);
  const text = await readFile(config, 'utf8');
  await writeFile(config, text.replace('port: 0', `port: ${port}`));
  return { service, port };
}

t.test('applies a changed configuration on request, but not one with mistakes', async (t) => {
  const tokens =
    'admin: { tokens: [{ name: ops, token: the-operator-token, may: [operate] }, { name: ro, token: the-reader-token, may: [read] }] }\n';
  const { config } = await workspace(t, 'http://127.0.0.1:9', tokens);
  t.match(await rollcall(['config', 'reload', '-c', config]), { code: 2, stderr: /SIGHUP/ });
  const { service, port } = await serve(config);
  t.match(await rollcall(['config', 'reload', '-c', config]), { code: 0, stdout: /applied/ });
  t.match(await rollcall(['config', 'reload', '-c', config, '--token', 'the-reader-token']), {
    code: 2,
    stderr: /^forbidden: The service did not apply it: The token ro may not operate/,
  });
  await service.stderr.match(/Configuration reloaded/);
  await writeFile(config, `${await readFile(config, 'utf8')}serviceNam: x\n`);
  const headers = { authorization: 'Bearer the-operator-token' };
  const asked = await fetch(`http://127.0.0.1:${port}/api/v1/config/reload`, { method: 'POST', headers });
  t.equal(asked.status, 400, 'the fault of the file, not of the service');
  t.match(await rollcall(['config', 'reload', '-c', config]), { code: 2, stderr: /Did you mean serviceName/ });
  process.emit('SIGHUP');
  await service.stderr.match(/The changed configuration was not applied/);
  t.match(await fetch(`http://127.0.0.1:${port}/readyz`), { status: 200 });
  await writeFile(config, (await readFile(config, 'utf8')).replace('serviceNam: x\n', ''));
  const reload = (token: string) => rollcall(['config', 'reload', '-c', config, '--token', token]);
  for (let guess = 0; guess < 10; guess += 1)
    t.match(await reload(`guess-${guess}`), { code: 2, stderr: /^unauthorized: / });
  t.match(
    await reload('the-operator-token'),
    { code: 1, stderr: /^rate_limited: / },
    'which is no mistake in the file',
  );
  const { code, stderr } = await service.stop();
  t.equal(code, 0);
  t.notMatch(stderr, /"stack"/, 'a mistake of a person has no stack');
  const gone = await workspace(t, 'http://127.0.0.1:9');
  await writeFile(gone.config, (await readFile(gone.config, 'utf8')).replace('port: 0', `port: ${port}`));
  t.match(await rollcall(['config', 'reload', '-c', gone.config]), { code: 1, stderr: /No service answers/ });
});

t.test('handles a SIGHUP during the start afterwards, and ignores one while it stops', async (t) => {
  const { config } = await workspace(t, 'http://127.0.0.1:9', 'log: { level: warn }\n');
  const others = process.listenerCount('SIGHUP');
  const service = start(['serve', '-c', config]);
  t.equal(process.listenerCount('SIGHUP'), others + 1, 'from the first moment');
  // At once: the service may read it at any moment.
  const setLevel = async (level: string) => {
    await writeFile(`${config}.new`, (await readFile(config, 'utf8')).replace(/level: \w+/, `level: ${level}`));
    await rename(`${config}.new`, config);
  };
  await setLevel('info');
  process.emit('SIGHUP');
  await service.stderr.match(LISTENING);
  await setLevel('debug');
  process.emit('SIGHUP');
  await service.stderr.match(/Configuration reloaded/);
  const stopped = service.stop();
  await service.stderr.match(/Stopping/);
  t.equal(process.listenerCount('SIGHUP'), others + 1, 'to the last');
  process.emit('SIGHUP');
  const { code, stderr } = await stopped;
  t.equal(code, 0);
  t.notMatch(stderr, /not applied/);
  t.equal(process.listenerCount('SIGHUP'), others);
});

t.test('writes only JSON lines if the log is JSON', async (t) => {
  const { config } = await workspace(t, 'http://127.0.0.1:9', 'log: { level: warn }\n');
  const service = start(['serve', '-c', config]);
  await service.stderr.match(LISTENING);
  const { stderr } = await service.stop();
  const said = stderr.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as { msg: string }]));
  t.match(said.at(0)?.msg, /answers at/);
  t.match(said.at(-1)?.msg, /^Stopping/);
});

t.test('delivers nothing if its port is taken, and may be tried again', async (t) => {
  const { config } = await workspace(t, 'http://127.0.0.1:9');
  const { service, port } = await serve(config);
  t.match(await rollcall(['serve', '-c', config]), {
    code: 1,
    stderr: new RegExp(`^port_taken: Port ${port} is taken`, 'm'),
  });
  await writeFile(
    config,
    (await readFile(config, 'utf8')).replace('listen: { port', 'listen: { host: 192.0.2.1, port'),
  );
  t.match(await rollcall(['serve', '-c', config]), {
    code: 2,
    stderr: /^bad_configuration: Nothing can listen .*192\.0\.2\.1/m,
  });
  await service.stop();
});

t.test('the cron process runs the schedules of its audiences', async (t) => {
  const listener = await listen(t);
  const everySecond = '    schedule: "* * * * * *"\n';
  const other = `  - name: Everybody\n    source: personas\n    sql: select customer as user_id from read_csv('orders.csv')\n`;
  const { config } = await workspace(t, listener.url, `${everySecond}${other}${everySecond}log: { level: info }\n`);
  t.match(await rollcall(['sync', 'nobody', '-c', config]), { code: 2, stderr: /unknown_audience/ });
  const cron = start(['sync', 'big_spenders', '-c', config]);
  await cron.stderr.match(/sync_run(.*\n)+.*sync_run/);
  t.match(await cron.stop(), { code: 0 });
  const runs = jsonLines<{ key: string }>(await rollcall(['runs', '--json', '-c', config]));
  t.strictSame([...new Set(runs.map(({ key }) => key))], ['big_spenders']);
  const told = await listener.stop();
  t.strictSame(told.map(({ body }) => body.userId).toSorted(), ['ada', 'cyd']);
});

t.test('the doctor finds faults and changes nothing', async (t) => {
  const { folder, config } = await workspace(t, 'http://127.0.0.1:9');
  t.match(await rollcall(['doctor', '-c', config]), { code: 0, stdout: /^ok +big_spenders: 2 members$/m });
  await rollcall(['sync', '--once', '-c', config]);
  await orders(folder, { bob: 10 });
  const text = await readFile(config, 'utf8');
  const broken = '  - { name: Broken, source: unused, sql: select user_id from nowhere }\n';
  const sources = text
    .replace('sources: [', 'sources: [{ id: unused, writeKey: u }, ')
    .replace('sharedSecret: s3cret,', '');
  await writeFile(config, sources.replace('Big Spenders', 'Large Spenders').replace('> 50', '> 0 and 1 = 1') + broken);
  const { code, stdout } = await rollcall(['doctor', '--json', '-c', config]);
  t.equal(code, 1);
  const found = jsonLines<{ check: string; state: string; message: string }>({ stdout });
  // The Postgres of tests runs without fsync, which the doctor minds.
  const problems = found.filter(({ state, message }) => state !== 'ok' && !message.includes('fsync'));
  t.match(problems, [
    { check: 'unused', message: /no enabled destination/ },
    { check: 'broken', message: /nobody hears of it: no enabled destination is connected to unused/ },
    { check: 'crm', message: /no sharedSecret/ },
    { check: 'broken', state: 'failed', message: /sql_failed/ },
    { check: 'big_spenders', message: /no longer in the configuration/ },
  ]);
  t.match(jsonLines(await rollcall(['runs', '--json', '-c', config])), { length: 1 }, 'it has run nothing');
});
