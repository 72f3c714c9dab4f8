import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import * as fc from 'fast-check';
import Fastify from 'fastify';
import t, { type Test } from 'tap';
import { receiver as receiverKit } from '../../receivers/index.ts';
import { Batcher } from '../../src/deliver/batcher.ts';
import { BATCH_BYTES, envelopeBytes } from '../../src/deliver/envelope.ts';
import { deletionNotice } from '../../src/message.ts';
import type { Claim } from '../../src/store/port.ts';
import { ManualClock } from '../helpers/clock.ts';
import { type Answer, type Received, Receiver, status } from './helpers/receiver.ts';
import { destination, message, Rig, type RigOptions } from './helpers/rig.ts';

const WAIT = 200;

const HOUR = 3_600_000;

function batched(url: string, size = 10, options: Parameters<typeof destination>[1] = {}, wait = WAIT) {
  const plain = destination(url, options);
  return { ...plain, endpoints: plain.endpoints.map((endpoint) => ({ ...endpoint, batch: { size, wait } })) };
}

interface Envelope {
  readonly batch: readonly { readonly properties: { readonly value: number } }[];
  readonly keys: readonly string[];
  readonly sentAt: string;
}

const envelopeOf = ({ body }: Pick<Received, 'body'>) => JSON.parse(body.toString('utf8')) as Envelope;
const valuesOf = (request: Pick<Received, 'body'>) =>
  envelopeOf(request).batch.map(({ properties }) => properties.value);
const values = (count: number) =>
  Array.from({ length: count }, (_, value) => message({ value, messageId: `n${value}` }));
const json =
  (code: number, body: unknown): Answer =>
  (response) =>
    void response.writeHead(code, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify(body));

async function rigWith(
  t: Test,
  answer: Answer,
  { size = 10, ...options }: Partial<RigOptions> & { size?: number } = {},
) {
  const receiver = await Receiver.start(t, answer);
  const rig = await Rig.start(t, { destinations: [batched(receiver.url, size)], ...options });
  return { receiver, rig };
}

/** Lets time pass until so many deliveries have ended for good. */
const ended = (rig: Rig, count: number) =>
  rig.passUntil(() => rig.verdicts.filter((kind) => kind === 'delivered' || kind === 'dead').length >= count, WAIT);

t.test('reads an answer as it is, even if the URL contains a word of it', async (t) => {
  const receiver = await Receiver.start(t, json(200, { rejected: [{ index: 0, code: 'bad', retry: false }] }));
  const rig = await Rig.start(t, { destinations: [batched(`${receiver.url}?reply=rejected`)] });
  await rig.accept('shop', values(1));
  await ended(rig, 1);
  t.same(rig.verdicts, ['dead'], 'what was rejected is not delivered');
});

t.test('sends the bodies unchanged, their keys and the time in an envelope, signed as a whole', async (t) => {
  const receiver = await Receiver.start(t, status(200));
  const crm = batched(receiver.url, 10, { secrets: ['s'], signing: 'both' });
  const rig = await Rig.start(t, { destinations: [crm] });
  const messages = values(25);
  await rig.accept('shop', messages);
  await ended(rig, 25);
  t.ok(receiver.requests.length >= 3 && receiver.requests.length < 25, `${receiver.requests.length} requests`);
  const bodies = new Set(messages.map(({ body }) => body));
  const keys = new Set<string>();
  for (const { headers, body } of receiver.requests) {
    const text = body.toString('utf8');
    const { batch, keys: named, sentAt } = envelopeOf({ body });
    t.ok(batch.length <= 10 && batch.length === named.length);
    t.equal(JSON.stringify(JSON.parse(text)), text, 'parsing and stringifying gives the same');
    for (const each of batch) t.ok(bodies.delete(JSON.stringify(each)), 'exactly what would be sent alone');
    for (const key of named) keys.add(key);
    t.equal(new Date(sentAt).toISOString(), sentAt);
    t.equal(headers['idempotency-key'], undefined);
    t.equal(headers['x-signature'], createHmac('sha1', 's').update(body).digest('hex'));
    const [id, at] = [headers['webhook-id'], headers['webhook-timestamp']];
    const expected = createHmac('sha256', 's').update(`${id}.${at}.`).update(body).digest('base64');
    t.equal(headers['webhook-signature'], `v1,${expected}`);
  }
  t.equal(keys.size, 25);
  t.equal(bodies.size, 0);
  t.same(keys, new Set(rig.settlements.map(({ claim }) => claim.id)), 'the Idempotency-Keys');
});

t.test('waits for more messages no longer than allowed, and sends a single one in an envelope too', async (t) => {
  const { receiver, rig } = await rigWith(t, status(200));
  await rig.send(1);
  await rig.calm();
  t.equal(receiver.requests.length, 0);
  await rig.pass(WAIT);
  await rig.settled(1);
  t.equal(envelopeOf(receiver.requests[0]!).batch.length, 1);
});

t.test('sends gathered messages at once when nothing more is expected', async (t) => {
  const receivers = [await Receiver.start(t, status(200)), await Receiver.start(t, status(200))] as const;
  const [one, another] = receivers.map(({ url }) => url) as [string, string];
  const several = batched(another, 10, { name: 'several', require: 'all' }, HOUR);
  const endpoints = [...several.endpoints, ...batched(one, 10, { name: 'several' }, HOUR).endpoints];
  const rig = await Rig.start(t, { destinations: [batched(one, 10, {}, HOUR), { ...several, endpoints }] });
  await rig.send(25);
  await rig.pass(3_000);
  t.equal(rig.settlements.length, 40, 'the rest waits for more');
  t.same(await rig.store.oldestUntried(), [], 'which no alert takes for a backlog');
  rig.worker.expectNoMore();
  await rig.pass(3_000);
  t.equal(rig.settlements.length, 50);
  await rig.send(12);
  await rig.pass(3_000);
  t.equal(rig.settlements.length, 74, 'and so does what a command makes afterwards');
  for (const { requests } of receivers) {
    const sizes = requests.map((request) => valuesOf(request).length);
    t.ok(
      sizes.every((size) => size === 10 || size === 5 || size === 2),
      `full ones before the rest: ${sizes}`,
    );
  }
});

t.test('gives each message its own outcome: rejected ones are retried or dead', async (t) => {
  const answer: Answer = (response, request, index) => {
    const places = valuesOf(request);
    const rejected = [
      { index: places.indexOf(3), code: 'handler_failed', retry: null },
      { index: places.indexOf(5), code: 'bad one!', retry: false },
    ].filter((each) => each.index >= 0 && (index === 0 || each.code !== 'handler_failed'));
    json(200, { rejected })(response, request, index);
  };
  const { receiver, rig } = await rigWith(t, answer);
  await rig.accept('shop', values(10));
  await ended(rig, 10);
  t.equal(receiver.requests.length, 2);
  t.same(valuesOf(receiver.requests[1]!), [3], 'only that one again, with the same key');
  t.equal(envelopeOf(receiver.requests[1]!).keys[0], envelopeOf(receiver.requests[0]!).keys[3]);
  t.match(await rig.deadLetters(), [{ messageId: 'n5', reason: 'refused', attempts: 1 }]);
  const errors = rig.settlements.flatMap(({ attempts }) => attempts.map(({ error }) => error)).filter(Boolean);
  t.same(errors.toSorted(), ['rejected_bad_one_', 'rejected_handler_failed']);
});

t.test('keeps no secret in the code of a rejection', async (t) => {
  const receiver = await Receiver.start(
    t,
    json(200, { rejected: [{ index: 0, code: 'is not signed by kept.to.ourselves', retry: false }] }),
  );
  const rig = await Rig.start(t, { destinations: [batched(receiver.url, 10, { secrets: ['kept.to.ourselves'] })] });
  await rig.accept('shop', values(1));
  await ended(rig, 1);
  t.same(rig.outcomes, [['refused', 'rejected_is_not_signed_by__']]);
});

const UNREADABLE: Record<string, Answer> = {
  'not JSON': (response) => void response.writeHead(200, { 'content-type': 'application/json' }).end('{"rejected":['),
  'cut off': (response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': 1_000 });
    response.write('{"rejected":[]', () => response.destroy());
  },
  'over 64 KiB': json(200, { rejected: [], more: 'x'.repeat(70_000) }),
  'inflates to over 64 KiB': (response) =>
    void response
      .writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' })
      .end(gzipSync(JSON.stringify({ rejected: [], more: 'x'.repeat(70_000) }))),
  'of an unknown coding': (response) =>
    void response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'x-secret' }).end('{}'),
  'an index that is not there': json(200, { rejected: [{ index: 4 }] }),
  'no list': json(200, { rejected: 'all of them' }),
};

for (const [name, bad] of Object.entries(UNREADABLE)) {
  t.test(`sends all again after an answer it cannot understand: ${name}`, async (t) => {
    const { receiver, rig } = await rigWith(t, (response, request, index) =>
      (index === 0 ? bad : status(200))(response, request, index),
    );
    await rig.accept('shop', values(4));
    await ended(rig, 4);
    t.same(valuesOf(receiver.requests[0]!), [0, 1, 2, 3]);
    t.same(receiver.requests.slice(1).flatMap(valuesOf).toSorted(), [0, 1, 2, 3]);
    t.same(await rig.deadLetters(), []);
  });
}

for (const [name, fine] of Object.entries<Answer>({
  'another content type': (response) =>
    void response.writeHead(200, { 'content-type': 'text/plain' }).end('{"rejected":'),
  'another kind of JSON': (response) =>
    void response.writeHead(200, { 'content-type': 'application/json-seq' }).end('\x1e{"ok":true}\n'),
  'JSON that rejects nothing': json(202, { ok: true }),
  'JSON that rejects null': json(200, { rejected: null }),
  'JSON in gzip': (response) =>
    void response
      .writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' })
      .end(gzipSync('{"rejected":[]}')),
  'JSON behind a byte order mark': (response) =>
    void response.writeHead(200, { 'content-type': 'application/json' }).end('\uFEFF{"rejected":[]}'),
  'no body': status(204, { 'content-type': 'application/json', 'x-note': 'empty' }),
})) {
  t.test(`takes all as delivered: ${name}`, async (t) => {
    const { receiver, rig } = await rigWith(t, fine);
    await rig.accept('shop', values(4));
    await ended(rig, 4);
    const requests = name === 'no body' ? receiver.requests.length : 1;
    t.equal(receiver.requests.length, requests);
    t.same(new Set(rig.verdicts), new Set(['delivered']));
  });
}

t.test('splits batches that are too much, down to one message, whose refusal is its own', async (t) => {
  const answer: Answer = (response, request) => {
    const places = valuesOf(request);
    response.writeHead(places.length > 6 ? 413 : places.includes(7) ? 400 : 200).end();
  };
  const { receiver, rig } = await rigWith(t, answer, { size: 20 });
  await rig.accept('shop', values(20));
  await ended(rig, 20);
  t.match(await rig.deadLetters(), [{ messageId: 'n7', reason: 'refused', status: 400, attempts: 1 }]);
  t.equal(rig.verdicts.filter((kind) => kind === 'delivered').length, 19);
  t.equal(rig.verdicts.length, 20, 'nobody was charged a try for being split');
  t.ok(receiver.requests.length < 14, `${receiver.requests.length} requests`);
});

t.test('counts a 5xx for each message, shrinks requests, and grows them with successes', async (t) => {
  const { receiver, rig } = await rigWith(
    t,
    (response, _, index) => void response.writeHead(index < 2 ? 500 : 200).end(),
  );
  await rig.accept('shop', values(8));
  await ended(rig, 8);
  const sizes = receiver.requests.map((request) => valuesOf(request).length);
  t.equal(sizes[0], 8);
  t.ok(
    sizes.slice(1, 3).every((size) => size <= 4),
    `${sizes}`,
  );
  await rig.accept(
    'shop',
    values(40).map((each, n) => ({ ...each, messageId: `later${n}` })),
  );
  await ended(rig, 48);
  const later = receiver.requests.map((request) => valuesOf(request).length);
  t.ok(Math.max(...later.slice(3)) > 4, `${later}`);
});

t.test('shrinks requests also if an answer takes nothing or is too long to read', async (t) => {
  for (const answer of [
    json(200, { rejected: [], more: 'x'.repeat(70_000) }),
    json(200, { rejected: Array.from({ length: 8 }, (_, index) => ({ index, code: 'deadline' })) }),
  ]) {
    const receiver = await Receiver.start(t, (response, request, index) =>
      (valuesOf(request).length > 4 ? answer : status(200))(response, request, index),
    );
    // Longer than the first retries are put off, so that they would all meet again.
    const rig = await Rig.start(t, { destinations: [batched(receiver.url, 8, {}, 5_000)] });
    await rig.accept('shop', values(8));
    await ended(rig, 8);
    t.same(
      receiver.requests.map((request) => valuesOf(request).length),
      [8, 4, 4],
    );
  }
});

t.test('does not shrink requests of others for a message that is rejected each time', async (t) => {
  const { receiver, rig } = await rigWith(t, (response, request, index) => {
    const place = valuesOf(request).indexOf(0);
    json(200, { rejected: place < 0 ? [] : [{ index: place, code: 'handler_failed' }] })(response, request, index);
  });
  await rig.accept('shop', values(10));
  await rig.passUntil(() => receiver.requests.length === 3, WAIT);
  await rig.accept(
    'shop',
    values(11)
      .slice(1)
      .map((each, n) => ({ ...each, messageId: `later${n}` })),
  );
  await ended(rig, 19);
  const sizes = receiver.requests.map(valuesOf).filter((held) => held.length !== 1 || held[0] !== 0);
  t.same(
    sizes.map(({ length }) => length),
    [10, 10],
  );
});

t.test('does not mix retries with first tries', async (t) => {
  let isFailing = true;
  const { receiver, rig } = await rigWith(t, (response) => void response.writeHead(isFailing ? 500 : 200).end());
  await rig.accept('shop', values(4));
  await rig.pass(WAIT);
  await rig.settled(4);
  isFailing = false;
  const firsts = values(30).map((each, n) => ({
    ...each,
    messageId: `first${n}`,
    body: message({ value: 100 + n }).body,
  }));
  await rig.accept('shop', firsts);
  await ended(rig, 34);
  for (const request of receiver.requests) {
    const isFirst = valuesOf(request).map((value) => value >= 100);
    t.equal(new Set(isFirst).size, 1, 'all of a request are one or the other');
  }
});

t.test('delivers to two endpoints, one with batches and one without, and any success counts', async (t) => {
  const [many, one] = [await Receiver.start(t, status(200)), await Receiver.start(t, status(200))];
  const both = destination([many.url, one.url]);
  const endpoints = both.endpoints.map((endpoint) =>
    endpoint.url === many.url ? { ...endpoint, batch: { size: 10, wait: WAIT } } : endpoint,
  );
  const rig = await Rig.start(t, { destinations: [{ ...both, endpoints }] });
  await rig.accept('shop', values(10));
  await ended(rig, 10);
  t.equal(one.requests.length, 10);
  for (const { headers } of one.requests) t.ok(headers['idempotency-key']);
  t.same(
    many.requests.flatMap(valuesOf).toSorted((a, b) => a - b),
    values(10).map((_, n) => n),
  );
});

t.test('sends no more batches once they are switched off, not even gathered ones', async (t) => {
  const { receiver, rig } = await rigWith(t, status(200));
  await rig.accept('shop', values(3));
  await rig.calm();
  rig.configure([destination(receiver.url)]);
  await rig.settled(3);
  t.equal(receiver.requests.length, 3);
  t.ok(receiver.bodies.every((body) => !('batch' in body)));
});

t.test('applies a changed size or wait to gathered messages', async (t) => {
  for (const [size, wait] of [
    [10, WAIT],
    [3, HOUR],
  ] as const) {
    const receiver = await Receiver.start(t, status(200));
    const rig = await Rig.start(t, { destinations: [batched(receiver.url, 10, {}, HOUR)] });
    await rig.accept('shop', values(3));
    await rig.calm();
    rig.configure([batched(receiver.url, size, {}, wait)]);
    await rig.pass(WAIT);
    await rig.settled(3);
    t.equal(receiver.requests.length, 1);
  }
});

t.test('keeps due messages due while settings change, such as a notice that waits for a place', async (t) => {
  const posted: string[][] = [];
  const places: (() => void)[] = [];
  const batcher = new Batcher(
    { size: 2, wait: HOUR },
    {
      clock: new ManualClock(),
      outlet: {
        window: { open: true, begun: 0 },
        enter: () => new Promise((resolve) => places.push(() => resolve(null))),
        withdraw: () => {},
      },
      memory: { bytes: 0 },
      mayPost: () => true,
      post: (claims) => {
        posted.push(claims.map(({ id }) => id));
        return new Promise(() => {});
      },
      leave: () => null,
      secrets: () => [],
      onRoom: () => {},
    },
  );
  const add = (id: string, lane: Claim['lane']) => {
    const claim = { id, lane, body: '{}', tries: 0, crashes: 0 } as unknown as Claim;
    batcher.add({ claim, generation: 1, done: () => {} });
  };
  add('a', 'live');
  add('b', 'live');
  add('gone', 'deletion');
  batcher.configure({ size: 2, wait: 2 * HOUR });
  for (const count of [1, 2]) {
    places.shift()?.();
    await new Promise(setImmediate);
    t.equal(posted.length, count);
  }
  t.same(posted, [['a', 'b'], ['gone']]);
});

t.test('delays nothing when an unchanged configuration is reloaded', async (t) => {
  const receiver = await Receiver.start(t, status(200));
  const same = () => [batched(receiver.url, 10, {}, 4_000)];
  const rig = await Rig.start(t, { destinations: same() });
  await rig.accept('shop', values(3));
  await rig.calm();
  await rig.pass(3_000);
  rig.configure(same());
  await rig.pass(1_000);
  await rig.settled(3);
  t.equal(receiver.requests.length, 1);
});

t.test('sends gathered messages at once during a deletion, before its notice', async (t) => {
  const receiver = await Receiver.start(t, status(200));
  const rig = await Rig.start(t, { destinations: [batched(receiver.url, 10, {}, HOUR)] });
  await rig.accept('shop', values(3));
  await rig.pass(5_000);
  t.equal(receiver.requests.length, 0);
  const request = {
    id: 'r',
    type: 'DELETE_ONLY',
    sources: null,
    userIds: ['u'],
    by: 'test',
    status: 'RUNNING',
  } as const;
  const rest = { subjects: 1, hashes: [], createdAt: rig.clock.now(), finishedAt: null, told: null, partial: false };
  await rig.store.saveRegulation({ ...request, ...rest });
  await rig.pass(2_000);
  await rig.settled(3);
  t.equal(receiver.requests.length, 1);
});

t.test('ends the wait for a deletion notice, and sends the gathered messages with it', async (t) => {
  const receiver = await Receiver.start(t, status(200));
  const rig = await Rig.start(t, { destinations: [batched(receiver.url, 10, {}, HOUR)] });
  await rig.accept('shop', values(3));
  await rig.calm();
  const notices = ['a', 'b'].map((userId, index) => deletionNotice(userId, `r-${index}`, rig.clock.now()));
  await rig.accept('shop', notices, { lane: 'deletion', to: ['crm'] });
  await rig.settled(5);
  t.same(
    receiver.requests.map((request) => envelopeOf(request).batch.length),
    [5],
  );
});

t.test('does not delay a notice that does not fit into their request', async (t) => {
  const receiver = await Receiver.start(t, status(200));
  const rig = await Rig.start(t, { destinations: [batched(receiver.url, 10, {}, HOUR)] });
  const first = deletionNotice('a', 'r-0', rig.clock.now());
  await rig.accept('shop', [first], { lane: 'deletion', to: ['crm'] });
  await rig.settled(1);
  const key = rig.settlements[0]!.claim.id;
  const left = BATCH_BYTES - envelopeBytes() - 2 * envelopeBytes(0, key);
  const large = [Math.floor(left / 2), Math.floor(left / 2)].map((bytes) => {
    const { body, ...rest } = message({ value: '' });
    return { ...rest, body: body.replace('""', `"${'x'.repeat(bytes - body.length)}"`) };
  });
  await rig.accept('shop', large);
  await rig.pass(5_000);
  t.equal(receiver.requests.length, 1);
  await rig.accept('shop', [deletionNotice('b', 'r-1', rig.clock.now())], { lane: 'deletion', to: ['crm'] });
  await rig.pass(5_000);
  const sizes = receiver.requests.slice(1).map((request) => envelopeOf(request).batch.length);
  // They are posted at the same time: either may arrive first.
  t.same(sizes.toSorted(), [1, 2]);
});

t.test('releases gathered messages on stop, uncharged', async (t) => {
  const { receiver, rig } = await rigWith(t, status(200));
  await rig.accept('shop', values(3));
  await rig.calm();
  await rig.stopInTime();
  t.equal(receiver.requests.length, 0);
  t.same(rig.verdicts, ['release', 'release', 'release']);
});

t.test('probes a silent endpoint with one message', async (t) => {
  let isDown = true;
  const { receiver, rig } = await rigWith(t, (response) => void (isDown ? response.destroy() : response.end()));
  await rig.accept('shop', values(50));
  await rig.untilDead();
  const before = receiver.requests.length;
  await rig.pass(60_000);
  const probes = receiver.requests.slice(before).map((request) => valuesOf(request).length);
  t.ok(probes.length > 0 && probes.every((size) => size === 1), `${probes}`);
  isDown = false;
  await ended(rig, 50);
  t.equal(rig.verdicts.filter((kind) => kind === 'delivered').length, 50);
});

t.test('handles each message of a batch once in the receiver kit, and resends failed ones', async (t) => {
  const app = Fastify();
  const handled: string[] = [];
  let hasFailed = false;
  await app.register(receiverKit, {
    path: '/hook',
    secret: 's',
    signing: 'both',
    on: {
      track: ({ properties }) => {
        if (properties['value'] === 7 && !hasFailed) {
          hasFailed = true;
          throw new Error('not yet');
        }
        handled.push(String(properties['value']));
      },
    },
  });
  t.teardown(() => app.close());
  const address = await app.listen({ port: 0, host: '127.0.0.1' });
  const crm = batched(`${address}/hook`, 10, { secrets: ['s'], signing: 'both' });
  const rig = await Rig.start(t, { destinations: [crm] });
  const at = { version: 1, timestamp: new Date(rig.clock.now()).toISOString(), context: {} };
  const valid = values(30).map((each) => ({ ...each, body: JSON.stringify({ ...JSON.parse(each.body), ...at }) }));
  await rig.accept('shop', valid);
  await ended(rig, 30);
  t.ok(hasFailed);
  t.same(
    handled.map(Number).toSorted((a, b) => a - b),
    values(30).map((_, n) => n),
  );
  t.same(await rig.deadLetters(), []);
});

/** How a request is answered; `take` says what becomes of its messages, in turn. */
const answers = fc.record({
  kind: fc.constantFrom('named', 'named', 'named', 'busy', 'lost', 'cut', 'refused'),
  take: fc.array(fc.boolean(), { minLength: 1, maxLength: 12 }),
});
const history = fc.record({
  size: fc.integer({ min: 1, max: 12 }),
  rounds: fc.array(fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 8 }), { minLength: 1, maxLength: 6 }),
  answers: fc.array(answers, { minLength: 1, maxLength: 20 }),
});

t.test('ends with the last value, and never goes backwards, whatever happens to batches', async (t) => {
  let seen = 0;
  const property = fc.asyncProperty(history, async ({ size, rounds, answers }) => {
    const taken = new Map<string, number>();
    let backwards = 0;
    let requests = 0;
    const receiver = await Receiver.start(t, (response, { body }) => {
      const { batch } = JSON.parse(body.toString('utf8')) as {
        batch: { userId: string; properties: { value: number } }[];
      };
      const { kind, take } = answers[requests] ?? { kind: 'named', take: [true] };
      requests += 1;
      const rejected: number[] = [];
      for (const [index, { userId, properties }] of batch.entries()) {
        // A batch that is refused as a whole, or for which there is no time, is not looked at.
        const isTaken = kind !== 'busy' && kind !== 'refused' && take[index % take.length] === true;
        if (!isTaken) rejected.push(index);
        else {
          if (properties.value < (taken.get(userId) ?? 0)) backwards += 1;
          taken.set(userId, properties.value);
        }
      }
      seen += batch.length;
      if (kind === 'lost') response.destroy();
      else if (kind === 'busy') response.writeHead(503).end();
      else if (kind === 'refused') response.writeHead(batch.length > 1 ? 413 : 503).end();
      else if (kind === 'cut') {
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': 500 });
        response.write('{"rejected":[', () => response.destroy());
      } else {
        const answer = { rejected: rejected.map((index) => ({ index, code: 'later' })) };
        response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
      }
    });
    const rig = await Rig.start(t, { destinations: [batched(receiver.url, size)] });
    const last = new Map<string, number>();
    for (const users of rounds) {
      for (const user of users) {
        const userId = `u${user}`;
        const value = (last.get(userId) ?? 0) + 1;
        last.set(userId, value);
        const body = JSON.stringify({ version: 1, type: 'identify', userId, properties: { value } });
        await rig.accept('shop', [message({ type: 'identify', userId, body, conflict: `audience|${userId}` })]);
      }
      await rig.pass(WAIT);
    }
    await rig.passUntil(() => [...last].every(([user, value]) => taken.get(user) === value), 1_000);
    await rig.pass(10_000);
    await rig.stopInTime();
    assert.deepEqual(taken, last);
    assert.equal(backwards, 0);
  });
  await fc.assert(property, { numRuns: Number(process.env['PROPERTY_RUNS'] ?? 4) });
  t.ok(seen > 0);
});
