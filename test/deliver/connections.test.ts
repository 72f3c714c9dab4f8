import t from 'tap';
import { post } from '../../src/deliver/exchange.ts';
import { createAgent } from '../../src/deliver/http/agent.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { Receiver } from './helpers/receiver.ts';

t.test('does not take back a connection twice whose request ended twice', async (t) => {
  const receiver = await Receiver.start(t);
  const agent = createAgent({ allow: ['127.0.0.0/8'], ca: [], proxy: null });
  t.teardown(() => agent.destroy());
  const { origin, pathname: path } = new URL(receiver.url);
  // A handler that fails at the end is told of its own failure.
  const failed = await new Promise<Error>((resolve) => {
    agent.dispatch(
      { origin, path, method: 'POST', body: '{}' },
      {
        onRequestStart: () => {},
        onResponseEnd: () => {
          throw new Error('failed at the end');
        },
        onResponseError: (_, error) => resolve(error),
      },
    );
  });
  t.equal(failed.message, 'failed at the end');
  const posts = Array.from({ length: 4 }, () =>
    post(agent, systemClock, { origin, path, headers: [], body: Buffer.from('{}') }),
  );
  t.same(
    (await Promise.all(posts)).map(({ outcome, error }) => [outcome, error]),
    posts.map(() => ['success', null]),
  );
});

t.test('leaves no connection behind for a request that undici rejects', async (t) => {
  const receiver = await Receiver.start(t);
  const agent = createAgent({ allow: ['127.0.0.0/8'], ca: [], proxy: null });
  t.teardown(() => agent.destroy());
  const { origin, pathname: path } = new URL(receiver.url);
  const request = { origin, path, body: Buffer.from('{}') };
  const refused = await post(agent, systemClock, { ...request, headers: ['x-bad', 'a\nb'] });
  t.match(refused, { outcome: 'retry', error: 'UND_ERR_INVALID_ARG' });
  t.match(await post(agent, systemClock, { ...request, headers: [] }), { outcome: 'success' });
  t.equal(receiver.connections, 1);
});
