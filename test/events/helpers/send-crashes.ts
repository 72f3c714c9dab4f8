import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import pg from 'pg';
import { pino } from 'pino';
import type { Test } from 'tap';
import { createReceiver } from '../../../receivers/index.ts';
import { App } from '../../../src/app.ts';
import { parseConfig } from '../../../src/config/load.ts';
import { systemClock } from '../../../src/kernel/clock.ts';
import type { Failpoint } from '../../../src/kernel/failpoint.ts';
import { randomNumbers } from '../../crash/random.ts';
import { program } from '../../helpers/programs.ts';
import { destinations, LOCAL } from './destinations.ts';
import type { SendingOrders } from './sending.ts';

const EVENTS = 3_000;
/** Lives of a send that may be killed: what is in flight at several is posted alone, which takes its time. */
const LIVES = 5;
/** Events of one accept, and of one request of the destination. */
const [PART, BATCH] = [1_000, 200];

/**
 * Send the events of a log again and again, each time by processes that are killed, until `kills` were. Each event of each
 * send must arrive with one key, which no other has, and the receiver kit must handle it once.
 *
 * @param database - the URL of an empty Postgres store; null for SQLite, whose log is in files
 */
export async function crashSends(t: Test, database: string | null, kills: number, seed: number): Promise<void> {
  const random = randomNumbers(seed);
  const folder = t.testdir({});
  const url = database ?? `sqlite:${join(folder, 'rollcall.db')}`;
  const handled: (string | undefined)[] = [];
  const kit = createReceiver({ secret: 's', on: { track: (_, { key }) => void handled.push(key) } });
  const receiver = await destinations(t, kit);
  const config = {
    ...{ store: url, listen: { port: 0 }, network: LOCAL, eventLog: { path: './events' } },
    sources: [{ id: 'shop', writeKey: 'key' }],
    destinations: [receiver.named('late', { types: ['track'] }, { size: BATCH })],
  };
  const open = () =>
    App.create(parseConfig(JSON.stringify(config), { file: 'rollcall.yaml', folder, env: {} }), {
      log: pino({ level: 'silent' }),
    });
  const wanted = await fill(await open());
  const live = async (crash: SendingOrders['crash'], ms?: number) => {
    if (database !== null) await endLeases(database);
    const orders: SendingOrders = { folder, config, crash };
    const child = fork(program('test/events/helpers/sending.ts'), [JSON.stringify(orders)], {
      execArgv: [],
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    const ended = once(child, 'exit');
    if (ms !== undefined) {
      void Promise.race([once(child, 'message').then(() => setTimeout(ms)), ended]).then(() => child.kill('SIGKILL'));
    }
    const [code, signal] = await ended;
    if (signal === null && code !== 0) throw new Error(`A life ended with ${code}.`);
    return signal === 'SIGKILL';
  };
  let [killed, repeated] = [0, 0];
  for (let round = 1; killed < kills; round += 1) {
    const app = await open();
    const begun = await app.sends.begin({
      ...{ destination: 'late', since: 0, until: systemClock.now() + 1, type: null, event: null, source: null },
    });
    await app.close();
    const before = receiver.posted.length;
    // The last life of a send ends as it should.
    for (let life = 1; life <= LIVES && killed < kills; life += 1) {
      const place = PLACES[random(PLACES.length) - 1] ?? null;
      const wasKilled = place === null ? await live(null, random(1_200)) : await live(place);
      if (!wasKilled) break;
      killed += 1;
    }
    if (await live(null)) throw new Error('The last life was killed.');
    const got = Map.groupBy(receiver.posted.slice(before), ({ body }) => body.messageId);
    t.same([...got.keys()].sort(), wanted, `send ${round} arrives whole, after ${killed} kills`);
    const keys = new Map([...got].map(([id, posts]) => [id, new Set(posts.map(({ key }) => key))]));
    t.same(
      [...keys].filter(([, { size }]) => size !== 1),
      [],
      'each event has one key',
    );
    const unique = [...keys.values()].flatMap((each) => [...each]).sort();
    t.equal(new Set(unique).size, wanted.length, 'and no other has it');
    t.same(handled.splice(0).sort(), unique, 'the kit handles each once');
    repeated += receiver.posted.length - before - wanted.length;
    const last = await open();
    t.match(await last.sends.find(begun.id), { send: { state: 'done', sent: wanted.length, total: wanted.length } });
    await last.close();
  }
  t.comment(`${killed} kills, ${repeated} events posted again`);
}

/** Where a process ends; null for any moment. */
const PLACES: readonly ({ readonly failpoint: Failpoint; readonly passes: number } | null)[] = [
  null,
  null,
  ...(['accept', 'commit', 'events_sent'] as const).flatMap((failpoint) => [
    { failpoint, passes: 1 },
    { failpoint, passes: 3 },
  ]),
];

/** Write events to the log, with and without the type that is wanted; resolves to the ids of those. */
async function fill(app: App): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let from = 0; from < EVENTS; from += PART) {
    const messages = Array.from({ length: PART }, (_, index) => {
      const at = new Date(systemClock.now()).toISOString();
      const [messageId, userId] = [`m${String(from + index).padStart(5, '0')}`, `u${index % 50}`];
      const type = index % 4 === 0 ? 'page' : 'track';
      if (type === 'track') ids.push(messageId);
      const body = { version: 1, type, messageId, userId, ...(type === 'track' ? { event: 'A' } : { name: 'A' }) };
      const times = { timestamp: at, receivedAt: at, context: {} };
      const rest = { destinations: [], lane: 'live', conflict: null } as const;
      return { source: 'shop', messageId, type, userId, body: JSON.stringify({ ...body, ...times }), ...rest } as const;
    });
    await app.store.accept({ step: null, logged: true, messages });
  }
  await app.close();
  return ids;
}

/** Those of a process that is dead end by the database's clock: nobody waits for that here. */
async function endLeases(url: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query('UPDATE rollcall.lease SET lease_until = 0; UPDATE rollcall.owner SET lease_until = 0');
  await client.end();
}
