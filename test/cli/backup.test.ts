import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { ADMIN, AS_ADMIN } from '../helpers/admin.ts';
import { dumped } from '../helpers/dump.ts';
import { startFastPostgres } from '../helpers/postgres.ts';
import { program } from '../helpers/programs.ts';
import { until } from '../helpers/until.ts';
import { jsonLines, listen, orders, type Request, rollcall, start, workspace } from './helpers.ts';

const WITH_TOKEN = `admin: { token: ${ADMIN.token} }\n`;
const MAIN = program('src/cli/main.ts');
const DOCS = new URL('../../docs/deployment.md', import.meta.url);

interface Arrival extends Request {
  readonly path: string;
  readonly body: Request['body'] & { readonly properties?: { readonly n: number } };
}

/** The shell commands of "Backup and restore", with folders of the test in the place of those that they name. */
async function documented(folders: Readonly<Record<string, string>>): Promise<readonly string[]> {
  const [, section = ''] = (await readFile(DOCS, 'utf8')).split('## Backup and restore');
  const blocks = [...section.matchAll(/^```sh\n(.*?)^```/gms)].map(([, block = '']) => block);
  return blocks.map((block) => block.replaceAll(/\/(srv|backups)\/[\w-]+/g, (path) => folders[path] ?? path));
}

/** A shell that knows `rollcall` as users do: as processes of their own. */
async function shell(folder: string, more: NodeJS.ProcessEnv = {}): Promise<(script: string) => Promise<string>> {
  const command = join(folder, 'rollcall');
  await writeFile(command, `#!/bin/sh\nexec '${process.execPath}' '${MAIN}' "$@"\n`);
  await chmod(command, 0o755);
  const env = { ...process.env, PATH: `${folder}:${process.env['PATH']}`, ...more };
  return async (script) => (await promisify(execFile)('sh', ['-euc', script], { env })).stdout;
}

/** What its sync left for a later try, as it is not due yet, is no failure. */
function ifOnlyWaiting(error: { readonly code: number; readonly stdout: string }): string {
  if (error.code !== 4) throw error;
  return error.stdout;
}

async function serve(t: Test, config: string): Promise<{ service: ChildProcess; url: string }> {
  const service = spawn(process.execPath, [MAIN, 'start', '-c', config], { stdio: ['ignore', 'ignore', 'pipe'] });
  t.teardown(() => service.kill('SIGKILL'));
  for await (const line of createInterface({ input: service.stderr })) {
    const url = /http:\/\/[\d.]+:\d+/.exec(line)?.[0];
    if (url !== undefined) return { service, url };
  }
  throw new Error('the service ended without an address');
}

/** Posts a numbered message, and sees it acknowledged. */
async function post(url: string, n: number): Promise<void> {
  const response = await fetch(`${url}/v1/track`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa('personas-key:')}`, 'content-type': 'application/json' },
    body: JSON.stringify({ event: 'Hello', userId: 'ada', properties: { n } }),
  });
  await response.arrayBuffer();
  if (response.status !== 200) throw new Error(`answered ${response.status}`);
}

/** Posts one message after the other from number 20 on, and leaves the CPU to others in between; ends with the number of the next. */
function keepPosting(url: string): () => Promise<number> {
  let going = true;
  const load = (async () => {
    let n = 20;
    for (; going; n += 1) {
      await post(url, n);
      await pause(5);
    }
    return n;
  })();
  return () => {
    going = false;
    return load;
  };
}

async function kill(service: ChildProcess): Promise<void> {
  const killed = once(service, 'exit');
  service.kill('SIGKILL');
  await killed;
}

/** Delivers what is pending. */
async function deliverAll(config: string): Promise<void> {
  const rest = start(['serve', '-c', config]);
  const [, address] = await rest.stderr.match(/answers at (http:\/\/[\d.]+:\d+)/);
  const pending = async () => {
    const { data } = (await (await fetch(`${address}/api/v1/endpoints`, { headers: AS_ADMIN })).json()) as {
      data: { pending: number }[];
    };
    return data.reduce((sum, each) => sum + each.pending, 0);
  };
  await until(async () => (await pending()) === 0);
  await rest.stop();
}

/** Of the first twenty messages those that did not come to `/late`. */
function missing(arrivals: readonly Arrival[]): number[] {
  const late = arrivals.flatMap(({ path, body }) => (path === '/late' && body.properties ? [body.properties.n] : []));
  return Array.from({ length: 20 }, (_, n) => n).filter((n) => !late.includes(n));
}

t.test('a restored backup of a running service sends exactly the missing messages', async (t) => {
  const before = await listen(t);
  const { folder, config } = await workspace(t, before.url, `log: { level: "\${LEVEL}" }\n${WITH_TOKEN}`);
  await writeFile(join(folder, '.env'), 'LEVEL=info\n');
  const text = await readFile(config, 'utf8');
  const configure = (crm: string, late: string) =>
    writeFile(
      config,
      text
        .replace(before.url, crm)
        .replace('audiences:', `  - { name: late, sources: [personas], webhookUrl: "${late}/late" }\naudiences:`),
    );
  await configure(before.url, 'http://127.0.0.1:9');
  t.match(await rollcall(['sync', '--once', '-c', config]), { code: 4, stdout: /2 delivered, 2 waiting/ });

  const restored = join(t.testdir({ bin: {} }), 'restored');
  const [makeBackup = '', restore = ''] = await documented({
    '/srv/rollcall': folder,
    '/srv/restored': restored,
    '/backups/2026-11-21': join(t.testdirName, 'copy'),
  });
  const run = await shell(join(t.testdirName, 'bin'));
  const { service, url } = await serve(t, config);
  for (let n = 0; n < 20; n += 1) await post(url, n);
  const stopPosting = keepPosting(url);
  t.match(await run(makeBackup), /^In .*:\n +rollcall\.db\n +audiences\.duckdb\n/);
  t.ok((await stopPosting()) > 20, 'messages were taken during the backup');
  // From here on, everything is lost with the machine.
  await orders(folder, { ada: 60, bob: 100 });
  const lost = start(['sync', '--once', '-v', '-c', config]);
  await lost.stderr.match(/sync_run/);
  await lost.stop();
  await kill(service);
  await before.stop();

  const after = await listen(t);
  await configure(after.url, after.url);
  const printed = await run(restore).catch(ifOnlyWaiting);
  t.match(printed, /^ok +store: (SQLite|PostgreSQL) \d/m);
  t.match(printed, /big_spenders \(audience\): 2 → 2 members, 1 enter, 1 leave/);
  await deliverAll(join(restored, 'rollcall.yaml'));

  const arrivals = (await after.stop()) as readonly Arrival[];
  const told = (path: string) =>
    arrivals
      .filter(({ body, path: to }) => to === path && body.type === 'identify')
      .map(({ body }) => [body.userId, body.traits?.['big_spenders']]);
  t.same(told('/hooks').toSorted(), [
    ['bob', true],
    ['cyd', false],
  ]);
  t.same(Object.fromEntries(told('/late')), { ada: true, bob: true, cyd: false });
  t.same(missing(arrivals), [], 'all that was acknowledged before the backup arrives');
});

t.test('a Postgres store restored from a dump sends exactly the missing messages', async (t) => {
  const postgres = await startFastPostgres();
  t.teardown(() => postgres.stop());
  const [lost, found] = [await postgres.database(), await postgres.store()];
  const before = await listen(t);
  const { folder, config } = await workspace(t, before.url, `store: ${lost}\n${WITH_TOKEN}`);
  const text = await readFile(config, 'utf8');
  const configured = (url: string, late: string) =>
    text
      .replace(before.url, url)
      .replace('audiences:', `  - { name: late, sources: [personas], webhookUrl: "${late}/late" }\naudiences:`);
  await writeFile(config, configured(before.url, 'http://127.0.0.1:9'));
  t.match(await rollcall(['migrate', '-c', config]), { code: 0 });
  t.match(await rollcall(['sync', '--once', '-c', config]), { code: 4, stdout: /2 delivered, 2 waiting/ });

  const copy = join(t.testdir({ bin: {} }), 'copy');
  t.match(await rollcall(['backup', copy, '-c', config]), { code: 2, stderr: /^bad_usage: .*pg_dump/ });
  const { service, url } = await serve(t, config);
  for (let n = 0; n < 20; n += 1) await post(url, n);
  const stopPosting = keepPosting(url);
  const restore = await dumped(lost);
  t.ok((await stopPosting()) > 20, 'messages were taken during the dump');
  await kill(service);
  await before.stop();

  await restore(found);
  const after = await listen(t);
  const restored = join(t.testdirName, 'restored');
  await cp(folder, restored, { recursive: true });
  await writeFile(join(restored, 'rollcall.yaml'), configured(after.url, after.url).replace(lost, found));
  const [, , goOn = ''] = await documented({ '/srv/rollcall': restored });
  const run = await shell(join(t.testdirName, 'bin'));
  t.match(await run(goOn), /^The ids of the restored store go on 2\^40 higher\./);
  const restoredConfig = join(restored, 'rollcall.yaml');
  t.match(await rollcall(['migrate', '--restored', '--json', '-c', restoredConfig]), {
    stdout: /^{"restored":true}$/m,
  });
  t.match(await rollcall(['doctor', '-c', restoredConfig]), { stdout: /^ok +store: PostgreSQL \d/m });
  const synced = await rollcall(['sync', '--once', '--json', '-c', restoredConfig]);
  t.match(jsonLines(synced), [{ key: 'big_spenders', first: false, sent: 0 }]);
  await deliverAll(restoredConfig);
  const arrivals = (await after.stop()) as readonly Arrival[];
  const told = arrivals.filter(({ body }) => body.type === 'identify').map(({ path }) => path);
  t.same(told, ['/late', '/late'], 'nobody is told again');
  t.same(missing(arrivals), [], 'all that was acknowledged before the dump arrives');
});

t.test('refuses a move or restore with wrong options, without showing the URL', async (t) => {
  const url = 'postgres://rollcall:s3cret@127.0.0.1:9/rollcall';
  const { config } = await workspace(t, 'http://127.0.0.1:9');
  for (const words of [
    ['--from', url, '--to', url],
    ['--from', 'sqlite:rollcall.db', '--to', 'sqlite:other.db'],
    ['--from', 'sqlite:rollcall.db', '--to', url, '--restored'],
    ['--restored', '-c', config],
  ]) {
    const refused = await rollcall(['migrate', ...words]);
    t.match(refused, { code: 2, stderr: /^bad_usage: / });
    t.notMatch(refused.stderr, /s3cret/);
  }
});
