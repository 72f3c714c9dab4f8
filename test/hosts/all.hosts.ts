import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { conformance, createSender, webhook } from '../../receivers/testing.ts';
import { freePort } from '../helpers/free-port.ts';
import { examplesOf } from '../receivers/helpers/documents.ts';

const HERE = import.meta.dirname;
const ROOT = resolve(HERE, '../..');
const secret = 'the secret of a host';

/** The recipes, by their headings. A first line such as `// server.ts` names the file. */
const recipes = new Map(
  ['docs/receivers.md', 'docs/hosts.md'].flatMap(examplesOf).map(({ heading, code }) => {
    const [, file = 'server.ts'] = /^\/\/ (\S+)\n/.exec(code) ?? [];
    return [heading, { file, code }] as const;
  }),
);

interface Host {
  readonly recipe: string;
  readonly name?: string;
  /** The recipe's file, if it does not name it. */
  readonly file?: string;
  /** The folder below this one that has its packages. */
  readonly within?: string;
  /** What a machine without compilers lacks. */
  readonly needs?: string;
  /** Files beside the recipe. */
  readonly files?: Readonly<Record<string, string>>;
  readonly adapt?: (code: string) => string;
  readonly build?: readonly string[];
  readonly run: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Cases that the host itself answers, and its statuses: none if it waits for the whole body. */
  readonly own?: readonly (readonly [name: RegExp, statuses: readonly number[]])[];
  readonly path?: string;
}

const node = process.execPath;
const bin = (path: string) => join(HERE, 'node_modules', path);
const bun = bin('@oven/bun-linux-x64/bin/bun');
const module = `import { Module } from '@nestjs/common';\nexport class AppModule {}\nModule({})(AppModule);\n`;
const react = {
  'app/root.tsx': `import { Outlet } from 'react-router';\nexport default () => <html><body><Outlet /></body></html>;\n`,
  'app/routes.ts': `import { route } from '@react-router/dev/routes';\nexport default [route('hooks', 'routes/hooks.ts')];\n`,
  'vite.config.ts': `import { reactRouter } from '@react-router/dev/vite';\nexport default { plugins: [reactRouter()] };\n`,
};
const svelte = (options: string) => ({
  'vite.config.ts': `import { sveltekit } from '@sveltejs/kit/vite';\nimport adapter from '@sveltejs/adapter-node';\nexport default { plugins: [sveltekit({ adapter: adapter(), ${options} })] };\n`,
  'src/app.html': '<html><head>%sveltekit.head%</head><body>%sveltekit.body%</body></html>',
});
const next = {
  'next.config.js': `export default { turbopack: { root: ${JSON.stringify(ROOT)} }, typescript: { ignoreBuildErrors: true } };\n`,
};
const layout = { 'app/layout.js': 'export default ({ children }) => children;\n' };

/** Requests that could be forms of other sites, which some frameworks refuse with 403. */
const GUARDED = [[/^unsigned, without body|^content-type: (text|missing)/, [403]]] as const;

/** Platforms that hand over whole requests, some of them as text, in which bytes that are no UTF-8 are lost. */
const lambda = (shape: string, own: Host['own'] = []): Host => ({
  recipe: 'AWS Lambda',
  name: `AWS Lambda, ${shape}`,
  file: 'server.mjs',
  needs: bin('aws-lambda-ric/rapid-client.node'),
  adapt: (code) => code.replace(/^ +store,.*\n/m, ''),
  run: [node, join(HERE, 'lambda.ts'), 'server.mjs', shape],
  own,
});
const TEXT = [[/^body: invalid UTF-8/, [401]]] as const;

const remix = {
  'app/root.tsx': `import { Outlet } from '@remix-run/react';\nexport default () => <html><body><Outlet /></body></html>;\n`,
  'vite.config.ts': `import { vitePlugin } from '@remix-run/dev';\nexport default { plugins: [vitePlugin()] };\n`,
};
const astro = (options: string) => ({
  'astro.config.mjs': `import node from '@astrojs/node';\nexport default { output: 'server', adapter: node({ mode: 'standalone' }), ${options} };\n`,
});

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
  { recipe: 'Elysia', name: 'Elysia on Bun', run: [bun, 'server.ts'] },
  { recipe: 'tRPC', run: [node, 'server.ts'] },
  { recipe: 'Bun', run: [bun, 'server.ts'] },
  {
    recipe: 'Deno',
    run: [bin('@deno/linux-x64-glibc/deno'), 'run', '-A', '--no-check', '--node-modules-dir=manual', 'server.ts'],
  },
  {
    recipe: 'Receiving webhooks: `@rollcall/receivers`',
    name: 'Fastify',
    adapt: (code) => `const [greet, miss, saveTraits] = [console.log, console.log, console.log];\n${code}`,
    run: [node, 'server.ts'],
  },
  { recipe: 'Express 4 and 5', name: 'Express 5', run: [node, 'server.ts'] },
  {
    recipe: 'Express 4 and 5',
    name: 'Express 4',
    adapt: (code) => code.replace("'express'", "'express4'"),
    run: [node, 'server.ts'],
  },
  { recipe: 'Koa', run: [node, 'server.ts'] },
  { recipe: 'Node', run: [node, 'server.ts'] },
  { recipe: 'Hono', name: 'Hono on Node', run: [node, 'server.ts'] },
  {
    recipe: 'Hono',
    name: 'Hono on Bun',
    adapt: (code) =>
      code
        .replace(/^import { serve }.*\n/m, '')
        .replace(
          'const server = serve({ fetch: app.fetch, port: 3000 });',
          'export default { fetch: app.fetch, port: 3000 };',
        ),
    run: [bun, 'server.ts'],
  },
  lambda('function URL', TEXT),
  lambda('HTTP API, base64'),
  lambda('REST API', TEXT),
  lambda('REST API, base64'),
  // Of a repeated header it hands over the last value.
  lambda('load balancer', [...TEXT, [/^signature: sent twice/, [200]]]),
  lambda('load balancer, several values, base64'),
  {
    recipe: 'Edge runtimes',
    name: 'Cloudflare Workers',
    file: 'worker.ts',
    files: { 'wrangler.toml': 'name = "hooks"\nmain = "worker.ts"\ncompatibility_date = "2026-06-01"\n' },
    build: [node, bin('wrangler/bin/wrangler.js'), 'deploy', '--dry-run', '--outdir', 'out'],
    run: [
      'sh',
      '-c',
      `exec ${node} ${bin('wrangler/bin/wrangler.js')} dev --port $PORT --inspector-port 0 \${ROLLCALL_SECRET:+--var "ROLLCALL_SECRET:$ROLLCALL_SECRET"}`,
    ],
    env: { WRANGLER_SEND_METRICS: 'false' },
    // Its server for development waits for the body. Cloudflare's network takes no more than 100 MB.
    own: [[/^too large/, []]],
  },
  { recipe: 'Azure Functions', run: [node, join(HERE, 'azure.ts'), 'hooks.ts'] },
  {
    recipe: 'Azure Functions',
    name: 'Azure Functions, streams',
    adapt: (code) => code.replace(/^app\.http/m, 'app.setup({ enableHttpStream: true });\n$&'),
    run: [node, join(HERE, 'azure.ts'), 'hooks.ts'],
  },
  {
    recipe: 'Google Cloud Functions',
    run: [node, bin('@google-cloud/functions-framework/build/src/main.js'), '--target=hooks', '--source=.'],
    // Its parsers come first, whatever the function is.
    own: [
      [/^one bit flipped|gzip$/, [400]],
      [/^too large/, []],
    ],
  },
  {
    recipe: 'Next',
    file: 'app/hooks/route.ts',
    files: { ...next, ...layout },
    build: [node, bin('next/dist/bin/next'), 'build'],
    run: [node, bin('next/dist/bin/next'), 'start'],
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
    own: [[/^too large/, []]],
  },
  {
    recipe: 'SvelteKit',
    files: svelte(''),
    build: [node, bin('vite/bin/vite.js'), 'build'],
    run: [node, 'build'],
    env: { BODY_SIZE_LIMIT: '1M' },
    own: GUARDED,
  },
  {
    recipe: 'SvelteKit',
    name: 'SvelteKit without its guard',
    files: svelte(`csrf: { trustedOrigins: ['*'] }`),
    build: [node, bin('vite/bin/vite.js'), 'build'],
    run: [node, 'build'],
    env: { BODY_SIZE_LIMIT: '1M' },
  },
  {
    recipe: 'React Router',
    files: react,
    build: [node, bin('@react-router/dev/bin.cjs'), 'build'],
    run: [node, bin('@react-router/serve/bin.cjs'), 'build/server/index.js'],
  },
  {
    recipe: 'React Router',
    name: 'Remix 2',
    within: 'remix',
    files: remix,
    build: [node, bin('../remix/node_modules/@remix-run/dev/dist/cli.js'), 'vite:build'],
    run: [node, bin('../remix/node_modules/@remix-run/serve/dist/cli.js'), 'build/server/index.js'],
  },
  {
    recipe: 'Astro',
    files: astro(''),
    build: [node, bin('astro/bin/astro.mjs'), 'build'],
    run: [node, 'dist/server/entry.mjs'],
    own: GUARDED,
  },
  {
    recipe: 'Astro',
    name: 'Astro without its guard',
    files: astro('security: { checkOrigin: false }'),
    build: [node, bin('astro/bin/astro.mjs'), 'build'],
    run: [node, 'dist/server/entry.mjs'],
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

/** An app whose only route is the recipe, within the folder where its packages are found. */
function writeSite(t: Test, host: Host, port: number): string {
  const { recipe, within = '.', files = {}, adapt = (code) => code } = host;
  const found = recipes.get(recipe);
  if (found === undefined) throw new Error(`the documents have no ${recipe}`);
  const { file = found.file } = host;
  const site = mkdtempSync(join(HERE, within, 'site-'));
  t.teardown(() => rmSync(site, { recursive: true, force: true }));
  const code = adapt(found.code).replace('forget(userId)', FORGET).replace('3000', String(port));
  // What some frameworks would otherwise install themselves.
  const dependencies = { isbot: '*', next: '*', nuxt: '*', '@remix-run/node': '*' };
  const all = {
    'package.json': JSON.stringify({ private: true, type: 'module', main: file, dependencies }),
    [file]: code,
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
  const running: ChildProcess = spawn(command, args, {
    cwd,
    env: own,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const said: string[] = [];
  for (const stream of [running.stdout, running.stderr])
    if (stream) createInterface(stream).on('line', (line) => said.push(line));
  const stop = async () => {
    if (running.exitCode !== null || running.signalCode !== null) return;
    // With the processes that it has started.
    process.kill(-(running.pid as number), 'SIGKILL');
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
  const { recipe, name = recipe, needs, own = [] } = host;
  if (ONLY !== undefined && !ONLY.includes(name)) continue;
  const skip = needs !== undefined && !existsSync(needs) && `${needs} was not compiled`;
  t.test(name, { timeout: 300_000, skip }, async (t) => {
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
      const [, statuses] = own.find(([pattern]) => pattern.test(each.name)) ?? [];
      if (statuses !== undefined) t.same(each.got, statuses, `${each.name}: ${each.got}, by the host`);
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
