import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import t from 'tap';
import { backup } from '../../src/store/copy/backup.ts';
import { goOnRestored } from '../../src/store/copy/restored-postgres.ts';
import { folderFiles } from '../../src/store/events/files.ts';
import { loggingService, send } from '../events/helpers/logging-app.ts';
import { dumped } from '../helpers/dump.ts';
import { isOnPostgres, unsharedPostgres } from '../helpers/store.ts';
import { startReceiver } from './helpers/receiver.ts';
import { caughtUp, membersOf } from './helpers/service.ts';

t.setTimeout(200_000);
const HOUR = 3_600_000;

t.test('continues live audiences in a restored copy, without users deleted since', async (t) => {
  const service = loggingService(t);
  const receiver = await startReceiver(t);
  const open = (changes: object = {}) =>
    service.open([], {
      network: { allow: ['127.0.0.0/8'] },
      destinations: [{ name: 'crm', sources: ['personas'], webhookUrl: receiver.url }],
      audiences: [
        { name: 'Buyers', source: 'personas', live: true, when: { performed: 'Order', within: '2 days' } },
        { name: 'Pairs', source: 'personas', live: true, when: { performed: 'Order', atLeast: 2, within: '2 days' } },
      ],
      ...changes,
    });
  const app = await open();
  await app.start({ collect: true, schedules: true });
  await send(app, ['ann', 'bob', 'cleo'].map(order));
  await caughtUp(app);
  const { folder: base, url, clock } = service;
  const [folder, events] = [join(base, 'copy'), join(base, 'events')];
  const restore = isOnPostgres ? await dumped(url) : null;
  if (!isOnPostgres)
    await backup({
      url,
      engines: [],
      store: app.store,
      keys: ['buyers', 'pairs'],
      base,
      folder,
      eventLog: folderFiles(events),
      clock,
    });
  await send(app, ['bob', 'dan'].map(order));
  const id = await app.regulations.file({ type: 'DELETE_ONLY', sources: null, userIds: ['ann'] });
  while ((await app.regulations.find(id))?.status !== 'FINISHED') await pause(30);
  await app.close();
  // The leases that the copy has are over by then.
  service.advance(HOUR);

  const restored = await open(await restoredPlaces(folder, events, restore));
  await restored.start({ collect: true, schedules: true });
  const heard = async (key: string, wanted: string) => {
    while ([...(await membersOf(restored, key)).keys()].join() !== wanted) await pause(30);
  };
  const isKept = async (raw: string) => {
    const states = await restored.store.live.allStates();
    return (
      (await Promise.all(states.map(({ state }) => restored.store.live.rowsOfIds(state, [raw])))).flat().length > 0
    );
  };
  await heard('buyers', 'bob,cleo');
  while (await isKept('u:ann')) await pause(30);
  t.notOk(await isKept('u:dan'), 'what came after the copy is lost with the store');
  await send(restored, [order('bob')]);
  await heard('pairs', 'bob');
  service.advance(50 * HOUR);
  await heard('buyers', '');
  await caughtUp(restored);
  t.same(receiver.faults, []);
});

/** Puts the copy in its place; resolves to what is configured otherwise. Notes of deletions lie beside the log. */
async function restoredPlaces(
  folder: string,
  events: string,
  restore: Awaited<ReturnType<typeof dumped>> | null,
): Promise<object> {
  if (restore) {
    const url = unsharedPostgres();
    await restore(url);
    await goOnRestored(url, () => {});
    return { store: url, engines: { lake: { type: 'postgres', url } } };
  }
  await cp(join(events, 'deletions.jsonl'), join(folder, 'events', 'deletions.jsonl'));
  return { store: `sqlite:${join(folder, 'rollcall.db')}`, eventLog: { path: join(folder, 'events') } };
}

let sent = 0;
function order(userId: string): object {
  sent += 1;
  return { type: 'track', event: 'Order', userId, messageId: `order-${sent}` };
}
