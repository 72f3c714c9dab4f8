import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Fastify from 'fastify';
import { pino } from 'pino';
import { App } from '../../src/app.ts';
import { parseConfig } from '../../src/config/load.ts';
import { ADMIN } from '../helpers/admin.ts';
import { fillSqlite } from '../helpers/fill-store.ts';

/** A service in all the states that its pages must show, on real sockets and files. */
export interface Estate {
  readonly app: App;
  readonly address: string;
  /** Answers of receivers from now on; `old` answers 410, `crm` 200, … */
  readonly answers: Map<string, number>;
  /** Members of the next sync. */
  spenders(ids: readonly string[]): void;
  /** Sends a message through collection. */
  send(message: object, key?: string): Promise<void>;
  close(): Promise<void>;
}

export interface EstateOptions {
  readonly admin?: object;
  /** Besides those with a behaviour of their own. */
  readonly destinations?: number;
  readonly audiences?: number;
  /** Names that are long, and in Arabic and Hebrew. */
  readonly foreign?: boolean;
  /** Rows of a store that are there before it starts. */
  readonly filled?: { readonly attempts: number; readonly letters: number };
  /** None of what is configured otherwise. */
  readonly empty?: boolean;
}

/** Names without a place to break. */
export const LONG_KEY = `buyers_${'of_everything_'.repeat(6)}`;
export const LONG_USER = 'x'.repeat(200);
/** Their punctuation moves unless they are kept apart from what stands beside them. */
export const ARABIC_USER = 'مستخدم (7)';
export const HEBREW_APP = 'יעד 1';

export const people = (from: number, to: number): string[] =>
  Array.from({ length: to - from }, (_, index) => `user-${String(from + index).padStart(4, '0')}`);

export async function startEstate(folder: string, options: EstateOptions = {}): Promise<Estate> {
  mkdirSync(folder, { recursive: true });
  const spenders = (ids: readonly string[]) =>
    writeFileSync(join(folder, 'spenders.csv'), ['user_id', ...ids].join('\n'));
  spenders(people(0, 60));
  const answers = new Map<string, number>([
    ['old', 410],
    ['billing', 500],
    ['ads', 401],
  ]);
  const receiver = Fastify();
  receiver.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, body, done) => done(null, body));
  receiver.post<{ Params: { name: string }; Body: string }>('/hooks/:name', async (request, reply) => {
    const status = answers.get(request.params.name) ?? 200;
    const said = { 401: 'The signature does not match.', 410: 'This hook is gone.', 500: 'Database is locked.' }[
      status
    ];
    return reply.code(status).send(said ? { error: said } : { unhandled: request.body.includes('"type":"track"') });
  });
  const hooks = await receiver.listen({ host: '127.0.0.1', port: 0 });
  const config = configuration(folder, hooks, options);
  const parsed = parseConfig(JSON.stringify(config), { file: 'rollcall.yaml', folder, env: {} });
  const open = () => App.create(parsed, { log: pino({ level: process.env['ESTATE_LOG'] ?? 'silent' }) });
  if (options.filled) {
    await (await open()).close();
    const rank = ({ name }: { readonly name: string }) => ['old', 'billing'].toReversed().indexOf(name);
    const endpoints = parsed.destinations
      .toSorted((one, other) => rank(other) - rank(one))
      .flatMap(({ name, endpoints }) => endpoints.map(({ id }) => [name, id] as const));
    fillSqlite(join(folder, 'rollcall.db'), { endpoints, ...options.filled });
  }
  const app = await open();
  await app.start({ collect: true, schedules: false });
  const address = app.address as string;
  return {
    app,
    address,
    answers,
    spenders,
    async send(message, key = 'WK_shop') {
      const response = await fetch(`${address}/v1/batch`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Basic ${btoa(`${key}:`)}` },
        body: JSON.stringify({ batch: [message].flat() }),
      });
      await response.text();
    },
    async close() {
      await app.close();
      await receiver.close();
    },
  };
}

function configuration(folder: string, hooks: string, options: EstateOptions) {
  const { admin = ADMIN, destinations = 0, audiences = 0, empty = false, filled, foreign = false } = options;
  const sources = ['shop', 'personas', 'spare'].map((id) => ({ id, writeKey: `WK_${id}` }));
  const base = {
    store: filled ? 'sqlite:./rollcall.db' : 'sqlite::memory:',
    listen: { host: '127.0.0.1', port: 0 },
    network: { allow: ['127.0.0.0/8'] },
    messages: { keep: '1d' },
    admin,
    alerts: {},
    sources,
    engines: { lake: { type: 'duckdb', path: join(folder, 'audiences.duckdb') } },
  };
  if (empty) return base;
  const named = [
    { name: 'crm', sources: ['shop', 'personas'] },
    { name: 'billing', sources: ['shop'] },
    { name: 'ads', sources: ['personas'] },
    { name: 'old', sources: ['shop'] },
    { name: 'warehouse', sources: ['shop', 'personas'], enabled: false },
    ...(foreign ? [{ name: HEBREW_APP, sources: ['shop', 'personas'] }] : []),
  ];
  const further = Array.from({ length: destinations }, (_, index) => ({ name: `app-${index}`, sources: ['spare'] }));
  const sql = "select user_id from read_csv('spenders.csv', header = true, all_varchar = true)";
  return {
    ...base,
    eventLog: { path: join(folder, 'events') },
    destinations: [...named, ...further].map((destination) => ({
      ...destination,
      sharedSecret: 'a-secret-that-no-page-shows',
      webhooks: [
        {
          url: `${hooks}/hooks/${encodeURIComponent(destination.name)}?token=hidden`,
          headers: { 'x-key': 'hidden-too' },
        },
      ],
    })),
    audiences: [
      { name: 'Big Spenders', source: 'personas', schedule: '*/15 * * * *', sql, guard: { maxExits: '20%' } },
      { name: 'Newsletter', source: 'personas', schedule: '0 3 * * *', sql: "select 'user-0001' as user_id" },
      { name: 'Broken', source: 'personas', schedule: '0 * * * *', sql: 'select nobody from nowhere' },
      { name: 'Loyal', source: 'personas', live: true, when: { performed: 'Order Completed', atLeast: 3 } },
      { name: 'Asleep', source: 'personas', paused: true, sql: "select 'user-0002' as user_id" },
      ...(foreign
        ? [
            {
              name: 'جمهور المشترين الكبار',
              key: LONG_KEY,
              source: 'personas',
              owner: 'فريق النمو!',
              sql: `select unnest(['${LONG_USER}', '${ARABIC_USER}']) as user_id`,
            },
          ]
        : []),
      ...Array.from({ length: audiences }, (_, index) => ({
        name: `Segment ${index}`,
        source: 'personas',
        sql: `select 'user-${index}' as user_id`,
      })),
    ],
    traits: [{ name: 'Lifetime Value', source: 'personas', sql: "select 'user-0001' as user_id, 42 as value" }],
  };
}
