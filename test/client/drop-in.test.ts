import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import sortBy from 'lodash/sortBy.js';
import t, { type Test } from 'tap';
import { startApp, startInbox, writeConfig } from '../collect/running.ts';
import { compile, compilers, nodeTypes, packed } from './packed.ts';

// The programs of that library's README, in our own words; with its name in place of ours they run there as well.

/** A web app that identifies who logs in, tracks what is put into the cart, and ends properly. */
const webApp = (imported: string) => `
${imported}
import http from 'node:http';

const analytics = new Analytics({ writeKey: 'WK_shop', host: process.env['HOST']!, flushAt: 50, flushInterval: 60_000 });

const server = http.createServer(async (req, res) => {
  const body = JSON.parse(Buffer.concat(await req.toArray()).toString()) as { userId: string; previousId: string };
  if (req.url === '/login') {
    analytics.identify({ userId: body.userId, previousId: body.previousId });
    res.writeHead(200).end();
  } else {
    analytics.track({ userId: body.userId, event: 'Add to cart', properties: { productId: '123456' } });
    res.writeHead(201).end();
  }
});

process.once('SIGTERM', async () => {
  server.close();
  server.closeAllConnections();
  await analytics.closeAndFlush({ timeout: 20_000 });
  process.exit();
});
server.listen(0, '127.0.0.1', () => console.log((server.address() as { port: number }).port));
`;

/** Every call, its callback, the events, and the settings that people use. */
const everything = `
import AnalyticsByDefault, { Analytics, Context, type AnalyticsSettings, type Plugin, type TrackParams } from '@rollcall/client';

interface Events {
  'Order Completed': { total: number; currency?: string };
  'Signed Out': {};
}
const settings: AnalyticsSettings = {
  ...{ writeKey: 'WK_shop', host: process.env['HOST']!, path: '/v1/batch', maxRetries: 3, flushAt: 15 },
  ...{ flushInterval: 10_000, httpRequestTimeout: 10_000, disable: false, httpClient: fetch },
};
const analytics = new Analytics<Events>(settings);
const sameClass: typeof Analytics = AnalyticsByDefault;
const said: string[] = [];
const late: string[] = [];
const plugin: Plugin = {
  name: 'Stamp', type: 'enrichment', version: '1.0.0', isLoaded: () => true, load: () => Promise.resolve(),
  track: (ctx) => { ctx.event['context'] = { stamped: true }; return ctx; },
};

analytics
  .on('error', (error) => console.error(error.code, error.reason))
  .on('http_request', ({ url, method, body }) => said.push(method + (body.length > 0) + url.endsWith('/v1/batch')))
  .on('identify', (ctx) => said.push(String(ctx.event['userId'])))
  .on('call_after_close', (event) => late.push(event.type))
  .on('register', (names) => said.push(names.join()))
  .once('drained', () => said.push('drained'));
await analytics.ready;
await analytics.register(plugin);
const order: TrackParams<Events> = { userId: 'u1', event: 'Order Completed', properties: { total: 30 } };
analytics.identify({ userId: 'u1', traits: { plan: 'pro' }, timestamp: new Date() });
analytics.track(order, (err, ctx) => said.push(err === undefined && ctx instanceof Context ? 'tracked' : 'lost'));
// @ts-expect-error a misspelt event
const noEvent = () => analytics.track({ userId: 'u1', event: 'Order Complete', properties: { total: 30 } });
// @ts-expect-error a property of the wrong type
const noNumber = () => analytics.track({ userId: 'u1', event: 'Order Completed', properties: { total: '30' } });
// @ts-expect-error a misspelt option
const noOption = () => new Analytics({ writeKey: 'x', flushEvery: 1 });
await analytics.flush();
analytics.page({ anonymousId: 'a1', category: 'Docs', name: 'Start', properties: { url: 'http://x/' } });
analytics.screen({ userId: 'u1', name: 'Main' });
analytics.group({ userId: 'u1', groupId: 'g1', traits: { name: 'Initech' } });
analytics.alias({ userId: 'u1', previousId: 'a1' });
await analytics.closeAndFlush({ timeout: 20_000 });
analytics.track({ userId: 'u1', event: 'Signed Out' });
console.log(JSON.stringify({ said, late }));
`;

const app = await packed(t);

/** The real service, and what its one destination gets. */
async function running(t: Test) {
  const inbox = await startInbox(t);
  const service = await startApp(t, writeConfig(t, inbox, { shop: { connected: true } }));
  return { inbox, env: { ...process.env, HOST: service.address } };
}

async function firstLine(child: ChildProcess): Promise<string> {
  child.stderr?.on('data', (text) => process.stderr.write(text));
  const [text] = await once(child.stdout!, 'data');
  return String(text).trim();
}

const byImport = webApp("import { Analytics } from '@rollcall/client';");
const byRequire = webApp("import client = require('@rollcall/client');\nconst { Analytics } = client;");

t.test('web apps that use import or require compile, and so does every call, callback, event and option', async (t) => {
  const programs = { 'web.mts': byImport, 'web.cts': byRequire, 'all.mts': everything };
  const options = { module: 'nodenext', target: 'es2024', ...nodeTypes };
  t.equal(await compile(compilers.today, app, programs, options), '');
});

for (const [how, file, text] of [
  ['import', 'web.mts', byImport],
  ['require', 'web.cts', byRequire],
] as const) {
  t.test(`the calls of a web app that uses ${how} arrive when it ends`, async (t) => {
    const { inbox, env } = await running(t);
    const program = path.join(app, file);
    writeFileSync(program, how === 'import' ? text : asJavaScript(text));
    const child = spawn(process.execPath, [program], { env, stdio: 'pipe' });
    t.teardown(() => child.kill('SIGKILL'));
    const address = `http://127.0.0.1:${await firstLine(child)}`;
    const post = async (url: string) =>
      (await fetch(address + url, { method: 'POST', body: '{"userId":"u1","previousId":"a1"}' })).status;
    t.same([await post('/login'), await post('/cart')], [200, 201]);
    child.kill('SIGTERM');
    t.same(await once(child, 'exit'), [0, null]);
    await inbox.arrived(2);
    // Those of one batch are posted at the same time.
    t.match(sortBy(inbox.webhooks, 'type'), [
      { type: 'identify', userId: 'u1' },
      { type: 'track', userId: 'u1', event: 'Add to cart', properties: { productId: '123456' } },
    ]);
  });
}

/** Syntax that Node does not strip from CommonJS. */
const asJavaScript = (text: string) =>
  text
    .replace(/import (\w+) = require/, 'const $1 = require')
    .replace(/import (\w+) from '(.*)';/, "const $1 = require('$2');");

t.test('every call, callback, event and option arrives', async (t) => {
  const { inbox, env } = await running(t);
  const child = spawn(process.execPath, [path.join(app, 'all.mts')], { env, stdio: 'pipe' });
  const { said, late } = JSON.parse(await firstLine(child));
  t.same(said, ['Rollcall', 'Stamp', 'POSTtruetrue', 'u1', 'tracked', 'drained', 'POSTtruetrue']);
  t.same(late, ['track']);
  await inbox.arrived(6);
  t.match(inbox.webhooks.map(({ type }) => type).sort(), ['alias', 'group', 'identify', 'page', 'screen', 'track']);
  t.match(
    inbox.webhooks.find(({ type }) => type === 'track'),
    { event: 'Order Completed', properties: { total: 30 }, context: { stamped: true } },
  );
});
