import fc from 'fast-check';
import t from 'tap';
import { Client } from '../../src/client/index.ts';
import { BufferBatch } from '../../src/client/node/batch.ts';
import { MAX_BATCH_BYTES } from '../../src/client/platform.ts';
import { SEPARATOR } from '../../src/client/queue.ts';
import { ManualClock } from './manual-clock.ts';
import { service, success } from './service.ts';

const track = (client: Client, ...events: (string | number)[]) => {
  for (const event of events) client.track({ userId: 'u', event: String(event) });
};

t.test('sends a message at once with size 1', async (t) => {
  const { endpoint, request } = await service(t);
  const client = new Client('KEY', { endpoint, size: 1, clock: new ManualClock() });
  track(client, 'only');
  t.match((await request(0)).batch, [{ event: 'only' }]);
  await client.close();
});

t.test('sends the first 3 of 5 messages as a batch with size 3', async (t) => {
  const { endpoint, request, events } = await service(t);
  const client = new Client('KEY', { endpoint, flushAt: 3, clock: new ManualClock() });
  track(client, 0, 1, 2, 3, 4);
  t.match((await request(0)).batch, [{ event: '0' }, { event: '1' }, { event: '2' }]);
  t.equal((await request(0)).batch.length, 3);
  t.same(await client.close(), { sent: 5, failed: 0, dropped: 0 });
  t.same(events(), ['0', '1', '2', '3', '4']);
});

t.test('sends 20 messages without waiting, but not 19', async (t) => {
  const { endpoint, request, requests } = await service(t);
  const client = new Client('KEY', { endpoint, clock: new ManualClock() });
  track(client, ...Array(19).keys());
  t.equal(client.queued, 19);
  await new Promise(setImmediate);
  t.equal(requests.length, 0);
  track(client, 19);
  t.equal((await request(0)).batch.length, 20);
  await client.close();
});

t.test('sends a full request without waiting, whatever flushAt is', async (t) => {
  const { endpoint, request } = await service(t);
  const client = new Client('KEY', { endpoint, flushAt: 1_000_000, clock: new ManualClock() });
  track(client, ...Array(2_501).keys());
  t.equal((await request(0)).batch.length, 2_500);
  t.same(await client.close(), { sent: 2_501, failed: 0, dropped: 0 });
});

t.test('waits 10 ms for more messages after a request', async (t) => {
  const { endpoint, request, requests } = await service(t, () => {});
  const clock = new ManualClock();
  const client = new Client('KEY', { endpoint, flushAt: 2, clock });
  track(client, 0, 1, 2, 3);
  const gathering = clock.timer((ms) => ms === 10);
  (await request(0)).reply(200, success);
  await gathering;
  track(client, 4);
  t.equal(requests.length, 1);
  clock.advance(10);
  const second = await request(1);
  t.equal(second.batch.length, 3);
  const closed = client.close();
  second.reply(200, success);
  t.same(await closed, { sent: 5, failed: 0, dropped: 0 });
});

t.test('sends queued messages after flushAfter', async (t) => {
  const { endpoint, request, requests } = await service(t);
  const clock = new ManualClock();
  const client = new Client('KEY', { endpoint, clock });
  track(client, 'a', 'b');
  clock.advance(4_999);
  await new Promise(setImmediate);
  t.equal(requests.length, 0);
  clock.advance(1);
  t.equal((await request(0)).batch.length, 2);
  await client.close();
});

t.test('counts flushAfter from the last flush', async (t) => {
  const { endpoint, request } = await service(t);
  const clock = new ManualClock();
  const client = new Client('KEY', { endpoint, clock });
  track(client, 'a');
  clock.advance(1_000);
  t.same(await client.flush(), { sent: 1, failed: 0, dropped: 0 });
  clock.advance(4_500);
  track(client, 'b');
  clock.advance(500);
  t.match((await request(1)).batch, [{ event: 'b' }]);
  await client.close();
});

t.test('sets the timer again for later messages', async (t) => {
  const { endpoint, request } = await service(t);
  const clock = new ManualClock();
  const client = new Client('KEY', { endpoint, clock, flushAfter: 100 });
  for (const n of [0, 1, 2]) {
    track(client, n);
    clock.advance(100);
    t.match((await request(n)).batch, [{ event: String(n) }]);
    await client.flush();
  }
  await client.close();
});

t.test('flushes on close', async (t) => {
  const { endpoint, events } = await service(t);
  const client = new Client('KEY', { endpoint, clock: new ManualClock() });
  track(client, 'a');
  t.same(await client.close(), { sent: 1, failed: 0, dropped: 0 });
  t.same(events(), ['a']);
  t.equal(client.queued, 0);
});

t.test('closes at once right after creation', async (t) => {
  const client = new Client('KEY', { clock: new ManualClock() });
  t.same(await client.close(), { sent: 0, failed: 0, dropped: 0 });
});

t.test('returns the same report from a second close, and drops and reports later calls', async (t) => {
  const { endpoint, requests } = await service(t);
  const losses: unknown[] = [];
  const client = new Client('KEY', { endpoint, onLoss: (loss) => losses.push(loss) });
  track(client, 'a');
  const [first, second] = await Promise.all([client.close(), client.close()]);
  t.same(first, { sent: 1, failed: 0, dropped: 0 });
  t.equal(first, second);
  t.equal(client.track({ userId: 'u', event: 'late' }), false);
  t.match(losses, [{ outcome: 'dropped', reason: 'closed', count: 1, messages: [{ event: 'late' }] }]);
  t.equal(requests.length, 1);
});

t.test('closes at the end of await using', async (t) => {
  const { endpoint, events } = await service(t);
  const client = new Client('KEY', { endpoint });
  track(client, 'a');
  // The syntax calls this; Node 22 has the symbol but not the syntax.
  await client[Symbol.asyncDispose]();
  t.same(events(), ['a']);
});

t.test('flushes messages in flight and all queued ones', async (t) => {
  const { endpoint, request, requests } = await service(t, () => {});
  const client = new Client('KEY', { endpoint, flushAt: 2, clock: new ManualClock() });
  track(client, 0, 1, 2);
  const flushed = client.flush();
  let settled = false;
  flushed.then(() => {
    settled = true;
  });
  (await request(0)).reply(200, success);
  const second = await request(1);
  t.notOk(settled);
  t.match(second.batch, [{ event: '2' }]);
  track(client, 'not covered');
  second.reply(200, success);
  t.same(await flushed, { sent: 3, failed: 0, dropped: 0 });
  t.equal(client.queued, 1);
  t.equal(requests.length, 2);
  const closed = client.close();
  (await request(2)).reply(200, success);
  t.same(await closed, { sent: 1, failed: 0, dropped: 0 });
});

t.test('leaves the rest queued for the next report if a flush runs out of time', async (t) => {
  const { endpoint, request } = await service(t, () => {});
  const clock = new ManualClock();
  const client = new Client('KEY', { endpoint, clock });
  track(client, 'a');
  const flushed = client.flush({ timeout: 800 });
  await request(0);
  clock.advance(801);
  t.same(await flushed, { sent: 0, failed: 0, dropped: 0 });
  t.equal(client.queued, 1);
  (await request(0)).reply(200, success);
  t.same(await client.close(), { sent: 1, failed: 0, dropped: 0 });
});

t.test('gathers messages while a batch is in flight, one request at a time', async (t) => {
  let open = 0;
  let most = 0;
  const { endpoint, requests, events } = await service(t, (request) => {
    most = Math.max(most, ++open);
    setImmediate(() => {
      open--;
      request.reply(200, success);
    });
  });
  const client = new Client('KEY', { endpoint, flushAt: 1 });
  track(client, ...Array(500).keys());
  t.same(await client.close(), { sent: 500, failed: 0, dropped: 0 });
  t.equal(most, 1);
  t.equal(requests.length, 2);
  t.same(events(), [...Array(500).keys()].map(String));
});

t.test('keeps the connection', async (t) => {
  const { endpoint, connections, requests } = await service(t);
  const client = new Client('KEY', { endpoint });
  for (const n of Array(10).keys()) {
    track(client, n);
    await client.flush();
  }
  await client.close();
  t.equal(requests.length, 10);
  t.equal(connections(), 1);
});

t.test('sends at most 2,500 messages in a request', async (t) => {
  const { endpoint, requests, events } = await service(t);
  const client = new Client('KEY', { endpoint, flushAt: 100_000 });
  track(client, ...Array(5_001).keys());
  t.match(await client.close(), { sent: 5_001 });
  t.same(
    requests.map(({ batch }) => batch.length),
    [2_500, 2_500, 1],
  );
  t.same(events(), [...Array(5_001).keys()].map(String));
});

t.test('fills requests up to 500,000 bytes, so that none could have held the next message', async (t) => {
  const { endpoint, requests } = await service(t);
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 31_000 }), { minLength: 20, maxLength: 60 }), async (sizes) => {
      requests.length = 0;
      const client = new Client('KEY', { endpoint, flushAt: 100_000 });
      for (const [n, size] of sizes.entries()) {
        client.track({ userId: 'u', event: String(n), properties: { text: 'é'.repeat(size / 2) } });
      }
      await client.close();
      for (const [i, { bytes }] of requests.entries()) {
        const next = requests[i + 1]?.batch[0];
        if (bytes > 500_000) return false;
        if (next && bytes + Buffer.byteLength(JSON.stringify(next)) + 2 <= 500_000) return false;
      }
      return requests.flatMap(({ batch }) => batch).length === sizes.length;
    }),
    { numRuns: 10 },
  );
});

t.test('fills a batch with exactly 500,000 bytes', (t) => {
  const sentAt = new Date(0).toISOString();
  const filled = (...lengths: number[]) => {
    const batch = new BufferBatch(0);
    for (const length of lengths) {
      const text = JSON.stringify('x'.repeat(length - 2));
      batch.add(text, Buffer.byteLength(text) + SEPARATOR.length);
    }
    return { count: batch.count, bytes: batch.body(sentAt).length };
  };
  const most = Array(15).fill(32_000);
  const room = MAX_BATCH_BYTES - filled(...most).bytes - ',\n'.length;
  t.same(filled(...most, room), { count: 16, bytes: 500_000 });
  t.equal(filled(...most, room + 1).count, 15);
  t.end();
});
