import t from 'tap';
import { loggingService, send } from '../events/helpers/logging-app.ts';
import { startReceiver } from './helpers/receiver.ts';
import { caughtUp, delivered } from './helpers/service.ts';

t.setTimeout(590_000);

t.test('delivers changes even if a client sends events with guessed ids of them', async (t) => {
  const service = loggingService(t);
  const receiver = await startReceiver(t);
  const app = await service.open([], {
    network: { allow: ['127.0.0.0/8'] },
    destinations: [{ name: 'crm', sources: ['shop'], types: ['identify'], webhookUrl: receiver.url }],
    audiences: [{ name: 'Admins', source: 'shop', live: true, when: { performed: 'Order' } }],
  });
  await app.start({ collect: true, schedules: true });
  await caughtUp(app);
  const versions = Array.from({ length: 40 }, (_, version) => `live-admins-${version.toString(36)}`);
  const track = { type: 'track', event: 'Looked', userId: 'x' };
  const ids = versions.flatMap((version) => [0, 1, 2, 3, 4].map((position) => `${version}:${position}`));
  await send(
    app,
    ids.map((messageId) => ({ ...track, messageId })),
  );
  await send(
    app,
    ['a', 'b', 'c'].map((userId) => ({ type: 'track', event: 'Order', userId })),
  );
  await caughtUp(app);
  await delivered(app);
  t.strictSame(receiver.state('admins'), { a: true, b: true, c: true });
  const told = await app.store.attempts({ limit: 10 });
  t.equal(told.length, 3);
  for (const { messageId } of told) t.match(messageId, /^live-admins-[0-9a-z]+:[\w-]{22}$/, 'nobody can foresee it');
  t.match((await app.sync.why('admins', 'a')).changes, [{ told: [{ attempt: { outcome: 'success' } }] }]);
});
