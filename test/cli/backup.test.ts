import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { jsonLines, listen, orders, type Request, rollcall, start, workspace } from './helpers.ts';

const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url));
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
async function shell(folder: string): Promise<(script: string) => Promise<string>> {
  const command = join(folder, 'rollcall');
  await writeFile(command, `#!/bin/sh\nexec '${process.execPath}' '${MAIN}' "$@"\n`);
  await chmod(command, 0o755);
  const env = { ...process.env, PATH: `${folder}:${process.env['PATH']}` };
  return async (script) => (await promisify(execFile)('sh', ['-euc', script], { env })).stdout;
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

t.test('a backup of a running service, restored as documented, sends exactly what is missing', async (t) => {
  const before = await listen(t);
  const { folder, config } = await workspace(t, before.url, 'log: { level: info }\n');
  const text = await readFile(config, 'utf8');
  const configure = (crm: string, late: string) =>
    writeFile(
      config,
      text
        .replace(before.url, crm)
        .replace('audiences:', `  - { name: late, sources: [personas], webhookUrl: "${late}/late" }\naudiences:`),
    );
  await configure(before.url, 'http://127.0.0.1:9');
  t.match(await rollcall(['sync', '--once', '-c', config]), { code: 0, stdout: /2 delivered, 2 waiting/ });

  const restored = join(t.testdir({ bin: {} }), 'restored');
  const [makeBackup = '', restore = ''] = await documented({
    '/srv/rollcall': folder,
    '/srv/restored': restored,
    '/backups/2026-11-21': join(t.testdirName, 'copy'),
  });
  const run = await shell(join(t.testdirName, 'bin'));
  const { service, url } = await serve(t, config);
  const post = async (n: number) => {
    const response = await fetch(`${url}/v1/track`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa('personas-key:')}`, 'content-type': 'application/json' },
      body: JSON.stringify({ event: 'Hello', userId: 'ada', properties: { n } }),
    });
    await response.arrayBuffer();
    if (response.status !== 200) throw new Error(`answered ${response.status}`);
  };
  for (let n = 0; n < 20; n += 1) await post(n);
  let going = true;
  const load = (async () => {
    let n = 20;
    for (; going; n += 1) await post(n);
    return n;
  })();
  t.match(await run(makeBackup), /^In .*:\n +rollcall\.db\n +audiences\.duckdb\n/);
  going = false;
  t.ok((await load) > 20, 'messages were taken during the backup');
  // What happens from here on is lost with the machine.
  await orders(folder, { ada: 60, bob: 100 });
  const lost = start(['sync', '--once', '-v', '-c', config]);
  await lost.stderr.match(/sync_run/);
  await lost.stop();
  const killed = once(service, 'exit');
  service.kill('SIGKILL');
  await killed;
  await before.stop();

  const after = await listen(t);
  await configure(after.url, after.url);
  const printed = await run(restore);
  t.match(printed, /^ok +store: it answers$/m);
  t.match(printed, /big_spenders \(audience\): 2 → 2 members, 1 enter, 1 leave/);
  const rest = start(['serve', '-c', join(restored, 'rollcall.yaml')]);
  const pending = async () => {
    const endpoints = await rollcall(['endpoints', '--json', '-c', join(restored, 'rollcall.yaml')]);
    return jsonLines<{ pending: number }>(endpoints).reduce((sum, each) => sum + each.pending, 0);
  };
  while ((await pending()) > 0);
  await rest.stop();

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
  const late = arrivals.flatMap(({ path, body }) => (path === '/late' && body.properties ? [body.properties.n] : []));
  const missing = Array.from({ length: 20 }, (_, n) => n).filter((n) => !late.includes(n));
  t.same(missing, [], 'all that was acknowledged before the backup arrives');
});
