import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { BaseClient } from '../../src/client/client.ts';
import type { Fetch, FetchAnswer } from '../../src/client/fetch.ts';
import type { ClientOptions } from '../../src/client/options.ts';
import { web } from '../../src/client/web/platform.ts';
import { ManualClock } from './manual-clock.ts';

/** A request of the host; its timers and its own requests end with it, and nobody hears of that. */
interface Request {
  hasEnded: boolean;
}
const requests = new AsyncLocalStorage<Request>();

class RequestClock extends ManualClock {
  override after(ms: number, callback: () => void): () => void {
    const request = requests.getStore();
    return super.after(ms, () => {
      if (!request?.hasEnded) callback();
    });
  }
}

type WaitUntil = (work: Promise<unknown>) => void;

/** A program on a runtime like Cloudflare's Workers, whose client all requests share. */
function share(options: ClientOptions = {}, answer: () => FetchAnswer = () => ({ status: 200 })) {
  const clock = new RequestClock();
  const arrived: string[] = [];
  const warnings: string[] = [];
  const send: Fetch = async (_, { body }) => {
    const request = requests.getStore();
    await turn();
    if (request?.hasEnded) return new Promise(() => {});
    const given = answer();
    if (given.status === 200) arrived.push(...JSON.parse(body).batch.map(({ userId }: { userId: string }) => userId));
    return given;
  };
  const platform = { ...web, isPerRequest: true, warn: (text: string) => void warnings.push(text) };
  const client = new BaseClient('K', { endpoint: 'http://x', fetch: send, clock, ...options }, platform);

  async function serve(handle: (waitUntil: WaitUntil) => void): Promise<void> {
    const request = { hasEnded: false };
    const work: Promise<unknown>[] = [];
    await requests.run(request, async () => {
      handle((each) => work.push(each));
      await Promise.all(work);
    });
    request.hasEnded = true;
  }
  /** Time goes on until all of it is done. */
  async function finish(...work: Promise<unknown>[]): Promise<void> {
    let isDone = false;
    const all = Promise.all(work).then(() => (isDone = true));
    while (!isDone) {
      clock.advance(25);
      await turn();
    }
    await all;
  }
  const track = (userId: string) => client.track({ userId, event: 'Seen' });
  const flushing = (userId: string) =>
    serve((waitUntil) => {
      track(userId);
      waitUntil(client.flush());
    });
  return { client, clock, arrived, warnings, serve, finish, track, flushing };
}

t.test('delivers each message once through a shared client if each request waits for its flush', async (t) => {
  const { arrived, warnings, finish, flushing, client, clock } = share({ flushAt: 3 });
  const users: string[] = [];
  for (let round = 0; round < 20; round++) {
    const some = Array.from({ length: 1 + (round % 7) }, (_, n) => `u${round}-${n}`);
    users.push(...some);
    await finish(...some.map((user) => flushing(user)));
    t.equal(client.queued, 0);
    clock.advance(10_000);
  }
  t.same(arrived.sort(), users.sort());
  t.same(warnings, []);
});

t.test('sends the unfinished messages of a request from the next one that waits', async (t) => {
  const { arrived, finish, flushing, serve, track, client } = share();
  await serve(() => {
    track('left');
    void client.flush();
  });
  await turn();
  await finish(flushing('next'));
  t.same(arrived, ['left', 'next']);
  t.equal(client.queued, 0);
});

t.test('leaves a retry to other requests if the waiting one ends', async (t) => {
  let status = 503;
  const { arrived, finish, flushing, serve, track, client } = share({ maxRetries: 2 }, () => ({ status }));
  for (const user of ['a', 'b']) {
    const ended = serve((waitUntil) => {
      track(user);
      waitUntil(client.flush({ timeout: 50 }));
    });
    await finish(ended);
  }
  t.same([client.queued, arrived], [2, []]);
  status = 200;
  await finish(flushing('c'));
  t.same(arrived, ['a', 'b', 'c']);
});

t.test('counts tries across the requests that made them', async (t) => {
  const lost: unknown[] = [];
  const onLoss: ClientOptions['onLoss'] = ({ reason, messages }) => lost.push([reason, messages.length]);
  const { finish, flushing, client } = share({ maxRetries: 2, onLoss }, () => ({ status: 503 }));
  await finish(flushing('a'));
  t.same(lost, [['expired', 1]]);
  t.equal(client.queued, 0);
});

t.test('warns once what to do if no request flushes', async (t) => {
  const { warnings, clock, serve, track, client } = share({ flushAfter: 500 });
  for (const user of ['a', 'b', 'c', 'd']) {
    await serve(() => void track(user));
    await turn();
    clock.advance(5_000);
  }
  t.match(warnings, [/^Messages of earlier requests are still queued \(1\): .*ctx\.waitUntil\(client\.flush\(\)\)/]);
  t.equal(warnings.length, 1);
  t.ok(client.queued > 0);
});
