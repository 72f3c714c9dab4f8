import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { conformance, createSender, webhook } from '../../receivers/testing.ts';
import { freePort } from '../helpers/free-port.ts';

const HERE = import.meta.dirname;
const ROOT = resolve(HERE, '../..');
const secret = 'the secret of a host';

/** The recipes of docs/hosts.md, by their headings. */
const recipes = new Map(
  [
    ...readFileSync(join(ROOT, 'docs/hosts.md'), 'utf8').matchAll(/^## ([^\n]+)\n.*?^```ts\n\/\/ (\S+)\n(.*?)^```/gms),
  ].map(([, name = '', file = '', code = '']) => [name, { file, code }] as const),
);

interface Host {
  readonly recipe: string;
  readonly name?: string;
  /** Files beside the recipe. */
  readonly files?: Readonly<Record<string, string>>;
  readonly adapt?: (code: string) => string;
  readonly build?: readonly string[];
  readonly run: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Cases that the host itself answers, with another status than the kit would. */
  readonly own?: readonly RegExp[];
  readonly path?: string;
}

const node = process.execPath;
const bin = (path: string) => join(HERE, 'node_modules', path);
const module = `import { Module } from '@nestjs/common';\nexport class AppModule {}\nModule({})(AppModule);\n`;
const react = {
  'app/root.tsx': `import { Outlet } from 'react-router';\nexport default () => <html><body><Outlet /></body></html>;\n`,
  'app/routes.ts': `import { route } from '@react-router/dev/routes';\nexport default [route('hooks', 'routes/hooks.ts')];\n`,
  'vite.config.ts': `import { reactRouter } from '@react-router/dev/vite';\nexport default { plugins: [reactRouter()] };\n`,
};
const svelte = {
  'vite.config.ts': `import { sveltekit } from '@sveltejs/kit/vite';\nimport adapter from '@sveltejs/adapter-node';\nexport default { plugins: [sveltekit({ adapter: adapter() })] };\n`,
  'src/app.html': '<html><head>%sveltekit.head%</head><body>%sveltekit.body%</body></html>',
};
const next = {
  'next.config.js': `export default { turbopack: { root: ${JSON.stringify(ROOT)} }, typescript: { ignoreBuildErrors: true } };\n`,
};
const layout = { 'app/layout.js': 'export default ({ children }) => children;\n' };

/** Requests that could be forms of other sites, which some frameworks refuse with 403. */
const GUARDED = [/^unsigned, without body/, /^content-type: (text|missing)/];

const hosts: readonly Host[] = [
  { recipe: 'Nest', files: { 'app.module.js': module }, run: [node, 'main.ts'] },
  { recipe: 'Nest with Fastify', files: { 'app.module.js': module }, run: [node, 'main.ts'] },
  { recipe: 'Koa with a body parser', run: [node, 'server.ts'] },
  { recipe: 'h3', run: [node, 'server.ts'] },
  {
    recipe: 'Elysia',
    name: 'Elysia on Node',
    adapt: (code) =>
      `import { node } from '@elysiajs/node';\n${code.replace('new Elysia()', 'new Elysia({ adapter: node() })')}`,
    run: [node, 'server.ts'],
  },
  { recipe: 'Elysia', name: 'Elysia on Bun', run: [bin('@oven/bun-linux-x64/bin/bun'), 'server.ts'] },
  { recipe: 'tRPC', run: [node, 'server.ts'] },
  { recipe: 'Bun', run: [bin('@oven/bun-linux-x64/bin/bun'), 'server.ts'] },
  {
    recipe: 'Deno',
    run: [bin('@deno/linux-x64-glibc/deno'), 'run', '-A', '--no-check', '--node-modules-dir=manual', 'server.ts'],
  },
  {
    recipe: 'Google Cloud Functions',
    run: [node, bin('@google-cloud/functions-framework/build/src/main.js'), '--target=hooks', '--source=.'],
    // Its own parser comes first.
    own: [/^one bit flipped/, /gzip$/, /^too large/],
  },
  {
    recipe: 'Next, pages',
    files: next,
    build: [node, bin('next/dist/bin/next'), 'build'],
    run: [node, bin('next/dist/bin/next'), 'start'],
    path: '/api/hooks',
  },
  {
    recipe: 'Next, edge',
    files: { ...next, ...layout },
    build: [node, bin('next/dist/bin/next'), 'build'],
    run: [node, bin('next/dist/bin/next'), 'start'],
    // It reads the body before it calls the route.
    own: [/^too large/],
  },
  {
    recipe: 'SvelteKit',
    files: svelte,
    build: [node, bin('vite/bin/vite.js'), 'build'],
    run: [node, 'build'],
    env: { BODY_SIZE_LIMIT: '1M' },
    // Its guard against forms of other sites comes first.
    own: GUARDED,
  },
  {
    recipe: 'React Router',
    files: react,
    build: [node, bin('@react-router/dev/bin.cjs'), 'build'],
    run: [node, bin('@react-router/serve/bin.cjs'), 'build/server/index.js'],
  },
  {
    recipe: 'Astro',
    files: {
      'astro.config.mjs': `import node from '@astrojs/node';\nexport default { output: 'server', adapter: node({ mode: 'standalone' }) };\n`,
    },
    build: [node, bin('astro/bin/astro.mjs'), 'build'],
    run: [node, 'dist/server/entry.mjs'],
    own: GUARDED,
  },
  {
    recipe: 'Nuxt',
    files: { 'nuxt.config.ts': 'export default { compatibilityDate: "2026-06-01", telemetry: false };\n' },
    build: [node, bin('nuxt/bin/nuxt.mjs'), 'build'],
    run: [node, '.output/server/index.mjs'],
  },
];

/** Handlers that fail, never end, or succeed. */
const FORGET = `(userId.startsWith('throws') ? Promise.reject(new Error('boom'))
  : userId.startsWith('hangs') ? new Promise(() => {}) : console.log('forgot', userId))`;

/** An app whose only route is the recipe, within this folder, where its packages are found. */
function writeSite(t: Test, { recipe, files = {}, adapt = (code) => code }: Host, port: number): string {
  const found = recipes.get(recipe);
  if (found === undefined) throw new Error(`docs/hosts.md has no ${recipe}`);
  const site = mkdtempSync(join(HERE, 'site-'));
  t.teardown(() => rmSync(site, { recursive: true, force: true }));
  const code = adapt(found.code).replace('forget(userId)', FORGET).replace('3000', String(port));
  // What some frameworks would otherwise install themselves.
  const dependencies = { isbot: '*', next: '*', nuxt: '*' };
  const all = {
    'package.json': JSON.stringify({ private: true, type: 'module', main: found.file, dependencies }),
    [found.file]: code,
    ...files,
  };
  for (const [name, text] of Object.entries(all)) {
    mkdirSync(dirname(join(site, name)), { recursive: true });
    writeFileSync(join(site, name), text);
  }
  return site;
}

const { ROLLCALL_SECRET: _, NODE_OPTIONS: __, ...inherited } = process.env;
const bare = { ...inherited, NODE_ENV: 'production', NEXT_TELEMETRY_DISABLED: '1', ASTRO_TELEMETRY_DISABLED: '1' };

async function build(cwd: string, [command = '', ...args]: readonly string[]): Promise<void> {
  const building = spawn(command, args, { cwd, env: bare, stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  for (const stream of [building.stdout, building.stderr]) stream.on('data', (text) => (said += text));
  const [code] = await once(building, 'close');
  if (code !== 0) throw new Error(`the build ended with ${code}:\n${said.slice(-2_000)}`);
}

async function start(t: Test, host: Host, cwd: string, env: Record<string, string>, port: number) {
  const [command = '', ...args] = host.run;
  const own = { ...bare, ...host.env, ...env, PORT: String(port), HOST: '127.0.0.1', NITRO_PORT: String(port) };
  const running: ChildProcess = spawn(command, args, { cwd, env: own, stdio: ['ignore', 'pipe', 'pipe'] });
  const said: string[] = [];
  for (const stream of [running.stdout, running.stderr])
    if (stream) createInterface(stream).on('line', (line) => said.push(line));
  const stop = async () => {
    if (running.exitCode !== null || running.signalCode !== null) return;
    running.kill('SIGKILL');
    await once(running, 'exit');
  };
  t.teardown(stop);
  const url = `http://127.0.0.1:${port}${host.path ?? '/hooks'}`;
  for (;;) {
    if (running.exitCode !== null)
      throw new Error(`it ended with ${running.exitCode}:\n${said.join('\n').slice(-2_000)}`);
    if (
      await fetch(url, { method: 'POST' }).then(
        () => true,
        () => false,
      )
    )
      break;
    await wait(100);
  }
  return { url, said, stop };
}

const ONLY = process.env['HOSTS']?.split(';');

for (const host of hosts) {
  const { recipe, name = recipe, own = [] } = host;
  if (ONLY !== undefined && !ONLY.includes(name)) continue;
  t.test(name, { timeout: 300_000 }, async (t) => {
    const port = await freePort();
    const site = writeSite(t, host, port);
    if (host.build) await build(site, host.build);
    t.pass('it is built without the secret');
    const unset = await start(t, host, site, {}, port);
    const answer = await createSender({ url: unset.url, secret }).send(webhook('track'));
    t.match(answer, { status: 503, body: /secret_unavailable/ }, 'without the secret it answers 503');
    await unset.stop();
    const { url, said } = await start(t, host, site, { ROLLCALL_SECRET: secret }, port);
    let count = 0;
    for await (const each of conformance({ url, secret, batches: true })) {
      count += 1;
      const isOwn = own.some((pattern) => pattern.test(each.name));
      if (isOwn) t.not(each.verdict, 'wrong', `${each.name}: ${each.got}`);
      else t.ok(each.passed, `${each.name}: ${each.got}`, { expected: each.expected, error: each.error });
    }
    t.ok(count > 51);
    const sender = createSender({ url, secret });
    const remove = (userId: string) => webhook('delete', { userId });
    t.equal((await sender.send(remove('throws'))).status, 500, 'a handler that throws');
    await sender.cutOff(remove('hangs up'));
    const late = sender.send(remove('hangs'));
    const mixed = await sender.batch([remove('throws too'), remove('in a batch'), remove('hangs too')]);
    t.same(
      JSON.parse(mixed.body).rejected.map(({ index, code }: { index: number; code: string }) => [index, code]),
      [
        [0, 'handler_failed'],
        [2, 'deadline'],
      ],
      'a batch with handlers that throw and hang',
    );
    t.match(await late, { status: 503, body: /deadline/ }, 'a handler that hangs');
    t.equal((await sender.send(remove('the last'))).status, 200);
    while (!said.some((line) => line.includes('forgot the last'))) await wait(50);
    t.ok(said.some((line) => line.includes('forgot in a batch')));
  });
}
