import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { clean, root } from './clean.ts';

const app = `
import { createRequire } from 'node:module';
import Fastify from 'fastify';
import * as kit from '@rollcall/receivers';
import { sign } from '@rollcall/receivers/signature';
import { webhookBody } from '@rollcall/receivers/bodies';
import { createReceiver } from '@rollcall/receivers/handle';
import { sqliteStore } from '@rollcall/receivers/sqlite';
import { conformance } from '@rollcall/receivers/testing';

const [secret, seen] = ['shhh', []];
const on = { any: ({ type }) => void seen.push(type) };
const app = Fastify();
app.register(kit.receiver, { path: '/hooks', secret, on, store: sqliteStore(':memory:') });
const url = await app.listen({ port: 0, host: '127.0.0.1' });
const wrong = [];
for await (const result of conformance({ url: url + '/hooks', secret })) if (!result.passed) wrong.push(result);
await app.close();
const body = JSON.stringify({ type: 'delete', userId: 'u1', timestamp: new Date().toISOString() });
webhookBody.parse(JSON.parse(body));
const headers = { 'content-type': 'application/json', 'x-signature': sign(body, secret) };
const answer = await createReceiver({ secret, on }).handle(new Request('http://a.example', { method: 'POST', headers, body }));
const { exports } = createRequire(import.meta.url)('@rollcall/receivers/package.json');
const twice = [];
for (const name of Object.keys(exports).map((part) => '@rollcall/receivers' + part.slice(1))) {
  if (name.endsWith('.json') || name.endsWith('/postgres')) continue;
  const [imported, required] = [await import(name), createRequire(import.meta.url)(name)];
  if (Object.keys(imported).some((key) => imported[key] !== required[key])) twice.push(name);
}
console.log(JSON.stringify({ node: process.version, wrong, twice, status: answer.status, kinds: [...new Set(seen)].sort() }));
`;

/** The result of {@link runPacked}. */
export interface PackedResult {
  node: string;
  wrong: unknown[];
  /** Exports of which `require` gives something else than `import`. */
  twice: string[];
  status: number;
  kinds: string[];
}

/** Packs the kit and installs the package and Fastify in an empty app; throws what npm says. Resolves to the path of the package. */
export async function installPacked(dir: string): Promise<string> {
  await clean('npm', ['pack', '--pack-destination', dir], join(root, 'receivers'));
  const [tarball = ''] = (await readdir(dir)).filter((name) => name.endsWith('.tgz'));
  await writeFile(join(dir, 'package.json'), '{"name":"empty-app","private":true,"type":"module"}');
  await writeFile(join(dir, 'app.js'), app);
  const quiet = ['--prefer-offline', '--no-audit', '--no-fund', '--no-package-lock'];
  await clean('npm', ['install', ...quiet, `./${tarball}`, 'fastify@5'], dir);
  return join(dir, tarball);
}

/** Runs the app on a Node of choice. */
export async function runPacked(dir: string, node = process.execPath): Promise<PackedResult> {
  const { stdout } = await clean(node, [join(dir, 'app.js')], dir);
  return JSON.parse(stdout);
}
