import { EventEmitter, once } from 'node:events';
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { Session } from 'node:inspector/promises';
import { syncBuiltinESMExports } from 'node:module';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import threads from 'node:worker_threads';
import Fastify from 'fastify';
import { pino } from 'pino';
import { receiver, sign } from '../../receivers/index.ts';
import { webhook } from '../../receivers/testing.ts';
import type { App } from '../../src/app.ts';
import { startLocalThread } from '../helpers/store-threads.ts';

/*
 * Prints, for each walk of docs/architecture.md, the files whose functions run for one message, by V8's precise coverage:
 * functions that ran in each of three tries, but not while the service idled. The SQLite store's thread runs on the main
 * thread, as coverage sees only that one.
 */
threads.Worker = class {
  constructor(_script: URL, { workerData }: { workerData: Parameters<typeof startLocalThread>[0] }) {
    // biome-ignore lint/correctness/noConstructorReturn: stands in for Node's class
    return startLocalThread(workerData);
  }
} as unknown as typeof threads.Worker;
syncBuiltinESMExports();
// Only now: they import the class that was replaced.
const { App: Service } = await import('../../src/app.ts');
const { runProgram } = await import('../../src/cli/program.ts');
const { parseConfig } = await import('../../src/config/load.ts');

const ROOT = pathToFileURL(`${resolve(import.meta.dirname, '../..')}/`).href;
const IDLE = 1_000;
const TRIES = 3;

const posted = new EventEmitter();
let answer = 200;
const endpoint = createServer((request, response) => {
  request.resume().on('end', () => {
    response.writeHead(answer).end();
    posted.emit('post');
  });
});
endpoint.listen(0, '127.0.0.1');
await once(endpoint, 'listening');
const url = `http://127.0.0.1:${(endpoint.address() as AddressInfo).port}/`;

const session = new Session();
session.connect();
await session.post('Profiler.enable');
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

/** `file:offset` of each function of the product that ran since the last look. */
async function functionsSinceLast(): Promise<ReadonlySet<string>> {
  const { result } = await session.post('Profiler.takePreciseCoverage');
  const ran = new Set<string>();
  for (const { url: script, functions } of result) {
    if (!/^(?:src|jobs|receivers)\//.test(script.slice(ROOT.length)) || !script.startsWith(ROOT)) continue;
    for (const { functionName, ranges } of functions) {
      const [range] = ranges;
      // The function without a name that begins a file is the module itself.
      if (!range || range.count === 0 || (functionName === '' && range.startOffset === 0)) continue;
      ran.add(`${script.slice(ROOT.length)}:${range.startOffset}`);
    }
  }
  return ran;
}

/** The files that `act` runs, and `idle` does not. */
async function filesOf(act: () => Promise<unknown>, idle: () => Promise<unknown> = () => sleep(IDLE)) {
  // The first time, caches fill and lazy parts are made.
  await act();
  await sleep(200);
  await functionsSinceLast();
  await idle();
  const anyway = new Set(await functionsSinceLast());
  await idle();
  for (const each of await functionsSinceLast()) anyway.add(each);
  let always: ReadonlySet<string> | null = null;
  for (let tries = 0; tries < TRIES; tries += 1) {
    await functionsSinceLast();
    await act();
    await sleep(200);
    const ran = await functionsSinceLast();
    const before: ReadonlySet<string> = always ?? ran;
    always = new Set([...ran].filter((each) => before.has(each)));
  }
  const own = [...(always ?? [])].filter((each) => !anyway.has(each));
  return [...new Set(own.map((each) => each.slice(0, each.lastIndexOf(':'))))].sort();
}

interface Settings {
  readonly sources?: readonly string[];
  readonly rest?: object;
  readonly store?: string;
}

function configText({ sources = ['shop'], rest = {}, store = 'sqlite::memory:' }: Settings): string {
  return JSON.stringify({
    store,
    listen: { host: '127.0.0.1', port: 0 },
    network: { allow: ['127.0.0.0/8'] },
    admin: { token: 'a-token-of-32-characters-for-this' },
    sources: ['shop', 'personas'].map((id) => ({ id, writeKey: `${id}-key` })),
    destinations: [{ name: 'crm', sources, sharedSecret: 'secret', webhookUrl: url }],
    ...rest,
  });
}

/** Starts the service in a folder of its own, and counts what `walk` gives. */
async function within(settings: Settings, walk: (app: App, folder: string) => Promise<readonly string[]>) {
  const folder = mkdtempSync(join(tmpdir(), 'walk-'));
  writeFileSync(join(folder, 'orders.csv'), 'customer,amount\nada,60\nbob,10\n');
  const config = parseConfig(configText(settings), { file: 'rollcall.yaml', folder, env: {} });
  const app = await Service.create(config, { log: pino({ level: 'silent' }) });
  await app.start({ collect: true, schedules: settings.rest !== undefined });
  try {
    return await walk(app, folder);
  } finally {
    await app.close();
    rmSync(folder, { recursive: true });
  }
}

let users = 0;
function newUser(): string {
  users += 1;
  return `user-${users}`;
}

async function track({ address }: App, userId = newUser()): Promise<void> {
  const headers = { authorization: `Basic ${btoa('shop-key:')}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ event: 'Bought', userId, properties: { total: 3 } });
  const response = await fetch(`${address}/v1/track`, { method: 'POST', headers, body });
  if (response.status !== 200) throw new Error(`track was answered with ${response.status}`);
}

async function andPost(act: () => Promise<unknown>): Promise<void> {
  const post = once(posted, 'post');
  await act();
  await post;
}

const message = () => within({}, (app) => filesOf(() => andPost(() => track(app))));

const deletion = () =>
  within({}, (app) => {
    const headers = { authorization: 'Bearer a-token-of-32-characters-for-this', 'content-type': 'application/json' };
    return filesOf(async () => {
      const body = JSON.stringify({
        regulationType: 'DELETE_ONLY',
        subjectType: 'USER_ID',
        subjectIds: [newUser()],
      });
      await andPost(() => fetch(`${app.address}/regulations`, { method: 'POST', headers, body }));
    });
  });

const row = () => {
  const sql = "select customer as user_id from read_csv('orders.csv') where amount > 50";
  const audiences = [{ name: 'Big', source: 'personas', schedule: '0 4 1 1 *', sql }];
  return within({ sources: ['personas'], rest: { audiences } }, (app, folder) =>
    filesOf(async () => {
      appendFileSync(join(folder, 'orders.csv'), `${newUser()},90\n`);
      await andPost(() => app.sync.run(['big']));
    }),
  );
};

const live = () => {
  const audiences = [{ name: 'Big', source: 'personas', live: true, when: { performed: 'Bought', atLeast: 1 } }];
  return within({ sources: ['personas'], rest: { eventLog: { path: './events' }, audiences } }, async (app) => {
    for (;;) {
      const [audience] = await app.sync.audiences();
      if (audience?.live && audience.live.hold === null && audience.live.progress === null) break;
      await sleep(20);
    }
    return filesOf(() => andPost(() => track(app)));
  });
};

/** The command, with one dead letter and without any. */
async function replay(): Promise<readonly string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'walk-'));
  const file = join(folder, 'rollcall.yaml');
  writeFileSync(file, configText({ store: 'sqlite:./rollcall.db' }));
  const bury = async () => {
    const config = parseConfig(configText({ store: 'sqlite:./rollcall.db' }), { file, folder, env: {} });
    const app = await Service.create(config, { log: pino({ level: 'silent' }) });
    await app.start({ collect: true, schedules: false });
    answer = 400;
    await andPost(() => track(app));
    while ((await app.store.deadLetters({ limit: 1 })).length === 0) await sleep(5);
    answer = 200;
    await app.close();
  };
  const command = async () => {
    const stream = () => Object.assign(new PassThrough().resume(), { isTTY: false });
    const streams = { stdin: stream(), stdout: stream(), stderr: stream(), signal: new AbortController().signal };
    const code = await runProgram(['dead-letters', 'replay', '--all', '-c', file], streams);
    if (code !== 0) throw new Error(`The command ended with ${code}`);
  };
  const files = await filesOf(async () => {
    await bury();
    await functionsSinceLast();
    await command();
  }, command);
  rmSync(folder, { recursive: true });
  return files;
}

/** The kit alone, which runs in the customer's app. */
async function received(): Promise<readonly string[]> {
  const app = Fastify();
  const entered: string[] = [];
  const handlers = { entered: async ({ userId }: { userId: string }) => void entered.push(userId) };
  app.register(receiver, { secret: 's', on: { audience: { big_spenders: handlers } } });
  await app.ready();
  // Made before anything is counted: the sender's part of the kit makes them.
  const requests = Array.from({ length: TRIES + 1 }, (_, index) => signedChange(`user-${index}`));
  const files = await filesOf(async () => {
    const [request = signedChange('nobody')] = requests.splice(0, 1);
    await app.inject(request);
  });
  await app.close();
  if (entered.length !== TRIES + 1) throw new Error(`The handler was called ${entered.length} times`);
  return files;
}

function signedChange(userId: string) {
  const personas = { computation_class: 'audience', computation_key: 'big_spenders', computation_id: 'c', sequence: 3 };
  const payload = JSON.stringify(
    webhook('identify', { userId, traits: { big_spenders: true }, context: { personas } }),
  );
  const headers = { 'content-type': 'application/json', 'x-signature': sign(payload, 's') };
  return { method: 'POST', url: '/', payload, headers } as const;
}

const counts = {
  message: await message(),
  row: await row(),
  deletion: await deletion(),
  webhook: await received(),
  replay: await replay(),
  live: await live(),
};
endpoint.close();
endpoint.closeAllConnections();
process.stdout.write(`${JSON.stringify(counts)}\n`, () => process.exit(0));
