import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import t from 'tap';
import { conformance, createSender, webhook } from '../../receivers/testing.ts';
import { freePort } from '../helpers/free-port.ts';
import { examplesOf } from '../receivers/helpers/documents.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const secret = 'the secret of a Next app';

const recipe = examplesOf('docs/receivers.md').find(({ heading }) => heading === 'Next')?.code ?? '';

/** A site whose only route is the recipe, within this folder: there Next finds itself. */
function writeSite(): string {
  const site = mkdtempSync(join(import.meta.dirname, 'site-'));
  mkdirSync(join(site, 'app/hooks'), { recursive: true });
  const code = recipe.replace('forget(userId)', "console.log('forgot', userId)");
  writeFileSync(join(site, 'app/hooks/route.js'), code);
  // Requests that Next makes to every site.
  writeFileSync(join(site, 'app/layout.js'), 'export default ({ children }) => children;\n');
  writeFileSync(join(site, 'package.json'), '{"private":true,"type":"module"}');
  writeFileSync(join(site, 'next.config.js'), `export default { turbopack: { root: ${JSON.stringify(ROOT)} } };\n`);
  return site;
}

/** Resolves when a line of the server has this in it. */
async function says(server: ChildProcess, text: string, said: string[]): Promise<void> {
  while (!said.some((line) => line.includes(text))) await once(server, 'line');
}

const bin = join(import.meta.dirname, 'node_modules/next/dist/bin/next');
const skip = existsSync(bin) ? false : 'Next is not installed: npm run test:next';

t.test('a site with the recipe is built without the secret', { skip, timeout: 180_000 }, async (t) => {
  const site = writeSite();
  t.teardown(() => rmSync(site, { recursive: true, force: true }));
  const { ROLLCALL_SECRET: _, ...env } = process.env;
  const build = spawn(process.execPath, [bin, 'build'], {
    cwd: site,
    env: { ...env, NEXT_TELEMETRY_DISABLED: '1', NODE_OPTIONS: '', NODE_ENV: 'production' },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  t.same(await once(build, 'exit'), [0, null]);
});

t.test('the recipe passes every conformance case in a real Next server', { skip, timeout: 180_000 }, async (t) => {
  const site = writeSite();
  t.teardown(() => rmSync(site, { recursive: true, force: true }));
  const port = await freePort();
  const server = spawn(process.execPath, [bin, 'dev', '-p', String(port), '-H', '127.0.0.1'], {
    cwd: site,
    env: { ...process.env, ROLLCALL_SECRET: secret, NEXT_TELEMETRY_DISABLED: '1', NODE_OPTIONS: '' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.teardown(async () => {
    if (server.exitCode !== null) return;
    server.kill();
    await once(server, 'exit');
  });
  const said: string[] = [];
  for (const stream of [server.stdout, server.stderr]) {
    createInterface(stream).on('line', (line) => {
      said.push(line);
      server.emit('line');
    });
  }
  await says(server, 'Ready', said);
  const url = `http://127.0.0.1:${port}/hooks`;
  // The first request has the route compiled.
  await fetch(url, { method: 'POST' });
  for await (const result of conformance({ url, secret, batches: true })) {
    t.ok(result.passed, `${result.name}: ${result.got}`, { expected: result.expected, error: result.error });
  }
  t.equal((await createSender({ url, secret }).send(webhook('delete', { userId: 'last of Next' }))).status, 200);
  await says(server, 'forgot last of Next', said);
});
