import { setImmediate as turn } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import t from 'tap';
import { createReceiver, type Failure, memoryStore, type StandaloneOptions } from '../../receivers/index.ts';
import { parseJson, parseValue } from '../../receivers/parse/messages.ts';
import { parseBody } from '../../receivers/parse/parse.ts';
import { sqliteStore } from '../../receivers/sqlite.ts';
import { envelope, signed, webhook } from '../../receivers/testing.ts';
import { readAnswer } from '../../src/deliver/batch-answer.ts';
import type { Exchange } from '../../src/deliver/exchange.ts';
import { manualClock, signal } from './helpers/clock.ts';
import { silent } from './helpers/hosts.ts';
import { membership, secret } from './helpers/samples.ts';

function start(options: Partial<StandaloneOptions>) {
  const hooks = createReceiver({ secret, on: {}, log: silent, ...options } as StandaloneOptions);
  const post = async (body: string, how?: Parameters<typeof signed>[2], key = secret) => {
    const response = await hooks.handle(new Request('http://app/hooks', { method: 'POST', ...signed(body, key, how) }));
    return { status: response.status, ...((await response.json()) as Record<string, unknown>) };
  };
  const send = (bodies: readonly unknown[], keys?: readonly string[], key?: string) =>
    post(envelope(bodies, { keys }), undefined, key);
  return { ...hooks, post, send };
}

t.test('handles each message of a batch as if sent alone, with the same bytes', async (t) => {
  const seen: unknown[] = [];
  const { send } = start({
    on: { any: ({ type }, { key, rawBody }) => void seen.push([type, key, rawBody.toString()]) },
  });
  const bodies = [webhook('track'), webhook('delete'), webhook('alias')].map((body) => JSON.stringify(body));
  t.same(await send(bodies, ['a', 'b', 'c']), { status: 200, received: true });
  t.same(seen, [
    ['track', 'a', bodies[0]],
    ['delete', 'b', bodies[1]],
    ['alias', 'c', bodies[2]],
  ]);
});

t.test('names messages without a handler, and the sender notes it', async (t) => {
  const { send } = start({ on: { delete() {} } });
  const { status, ...answer } = await send([webhook('delete'), webhook('page'), '{"type":"page"}', webhook('track')]);
  t.same(answer, {
    received: true,
    rejected: [{ index: 2, code: 'invalid_body', retry: false }],
    unhandled: [1, 3],
  });
  const exchange = { outcome: 'success', status, error: null, answer: JSON.stringify(answer) } as unknown as Exchange;
  const errors = readAnswer(exchange, 4, []).map(({ outcome, error }) => [outcome, error]);
  t.same(errors, [
    ['success', null],
    ['success', 'unhandled'],
    ['refused', 'rejected_invalid_body'],
    ['success', 'unhandled'],
  ]);
  for (const unhandled of [true, 'x', [9], [-1], [0.5], null]) {
    const odd = { ...exchange, answer: JSON.stringify({ unhandled }) };
    t.same(readAnswer(odd, 1, []), [odd], 'an odd note fails nothing');
  }
});

t.test('asks for failed messages again, not for refused ones, and handles only those again', async (t) => {
  const seen: string[] = [];
  let fails = true;
  const { send } = start({
    on: {
      track({ event }) {
        seen.push(event);
        if (event === 'b' && fails) throw new Error('boom');
      },
    },
  });
  const bodies = ['a', 'b', 'c'].map((event) => webhook('track', { event }));
  t.same(await send([...bodies, { type: 'track' }], ['1', '2', '3', '4']), {
    status: 200,
    received: true,
    rejected: [
      { index: 1, code: 'handler_failed', retry: true },
      { index: 3, code: 'invalid_body', retry: false },
    ],
  });
  fails = false;
  t.same(await send(bodies, ['1', '2', '3']), { status: 200, received: true });
  t.same(seen, ['a', 'b', 'c', 'b']);
});

t.test('rejects unfinished messages at the deadline and begins no more', async (t) => {
  const clock = manualClock();
  const release = signal();
  const started: string[] = [];
  const { send } = start({
    clock,
    deadline: 4500,
    on: {
      async track({ event }) {
        started.push(event);
        if (event !== '0') await release.promise;
      },
    },
  });
  const bodies = Array.from({ length: 40 }, (_, index) => webhook('track', { event: String(index) }));
  const keys = bodies.map((_, index) => `key-${index}`);
  const answer = send(bodies, keys);
  while (started.length < 17) await turn();
  clock.advance(4500);
  const { rejected } = (await answer) as unknown as { rejected: { index: number; code: string; retry: boolean }[] };
  t.same(
    rejected.map(({ index }) => index),
    keys.map((_, index) => index).slice(1),
  );
  t.ok(rejected.every(({ code, retry }) => code === 'deadline' && retry));
  release.resolve();
  for (let turns = 0; turns < 10; turns += 1) await turn();
  t.equal(started.length, 17, 'the rest waits for its repetition');
  t.same(await send(bodies, keys), { status: 200, received: true });
  t.equal(new Set(started).size, 40);
  t.equal(started.length, 40, 'and nothing was handled twice');
});

t.test('answers 500 at once if a batch fails at a break, and reports it', async (t) => {
  const failures: Failure[] = [];
  const clock = manualClock();
  let calls = 0;
  const now = () => {
    if (calls === 512) throw new Error('no clock');
    return clock.now();
  };
  const { handle } = createReceiver({
    secret,
    clock: { ...clock, now },
    store: memoryStore(),
    log: silent,
    on: {
      track: () => void calls++,
      error: (_, failure) => void failures.push(failure),
    },
  });
  // After 512 messages there is a break, and the clock is read.
  const bodies = Array.from({ length: 520 }, () => webhook('track'));
  const answer = await handle(new Request('http://app/hooks', { method: 'POST', ...signed(envelope(bodies), secret) }));
  t.equal(answer.status, 500);
  t.match(failures, [{ stage: 'host' }]);
});

/** The answer, at the deadline, to as many as Rollcall puts into one request; those that are no messages are refused. */
async function answerToMany(isMessage: (index: number) => boolean): Promise<string> {
  const clock = manualClock();
  let begun = 0;
  const { handle } = createReceiver({
    secret,
    clock,
    log: silent,
    on: {
      track() {
        begun += 1;
        return new Promise(() => {});
      },
    },
  });
  const bodies = Array.from({ length: 4096 }, (_, index) =>
    isMessage(index) ? webhook('track', { event: 'e' }) : { type: 'track' },
  );
  const keys = bodies.map((_, index) => `key-${index}`);
  const request = { method: 'POST', ...signed(envelope(bodies, { keys }), secret) };
  const answer = handle(new Request('http://app/hooks', request));
  while (begun < 16) await turn();
  clock.advance(4500);
  return (await answer).text();
}

t.test('keeps the answer to a large batch within what the sender reads, with every rejection', async (t) => {
  for (const refused of [0, 200, 4000]) {
    const text = await answerToMany((index) => index >= refused);
    t.ok(text.length <= 64 * 1024, `${text.length} bytes`);
    const exchange = { outcome: 'success', answer: text } as Exchange;
    const outcomes = readAnswer(exchange, 4096, []).map(({ outcome }) => outcome);
    const told = Math.min(refused, outcomes.filter((outcome) => outcome === 'refused').length);
    t.ok(told >= Math.min(refused, 300), `${told} are refused for good`);
    t.same(outcomes, [...Array(told).fill('refused'), ...Array(4096 - told).fill('retry')]);
  }
});

t.test('keeps the order of changes of one user in a batch, without delaying other users', async (t) => {
  const seen: string[] = [];
  const release = signal();
  const { send } = start({
    on: {
      audience: {
        vips: {
          async entered({ userId }) {
            if (userId === 'u1') await release.promise;
            seen.push(`+${userId}`);
          },
          exited({ userId }) {
            seen.push(`-${userId}`);
            if (userId === 'u2') release.resolve();
          },
        },
      },
    },
  });
  await send([
    membership('vips', 'u1', true, 1),
    membership('vips', 'u1', false, 2),
    membership('vips', 'u2', false, 1),
  ]);
  t.same(seen, ['-u2', '+u1', '-u1']);
});

t.test("keeps a message's bytes as sent, whatever a handler does to the message", async (t) => {
  const seen: string[] = [];
  const { send } = start({
    on: {
      track(message, request) {
        Object.assign(message, { event: 'changed' }).properties['more'] = true;
        seen.push(request.rawBody.toString());
      },
    },
  });
  const bodies = ['a', 'b'].map((event) => JSON.stringify(webhook('track', { event })));
  await send(bodies);
  t.same(seen, bodies);
});

t.test('runs a thousand changes of one user in order after a slow one', async (t) => {
  const [release, seen] = [signal(), [] as unknown[]];
  const { send } = start({
    on: {
      async identify({ context }) {
        if (context.personas?.sequence === 1) await release.promise;
        seen.push(context.personas?.sequence);
      },
    },
  });
  const change = (sequence: number) => membership('vips', 'u1', sequence % 2 === 1, sequence);
  const answers = Array.from({ length: 100 }, (_, round) =>
    send(Array.from({ length: 16 }, (_, place) => change(round * 16 + place + 1))),
  );
  for (let turns = 0; turns < 10; turns += 1) await turn();
  t.same(seen, []);
  release.resolve();
  for (const answer of await Promise.all(answers)) t.same(answer, { status: 200, received: true });
  t.same(
    seen,
    Array.from({ length: 1600 }, (_, place) => place + 1),
  );
});

t.test("keeps senders' keys apart, so that none can pass another's messages off as repetitions", async (t) => {
  const { send } = start({ secret: ['secret of a', 'secret of b'], on: { any() {} } });
  let calls = 0;
  for (const key of ['secret of a', 'secret of b']) {
    t.same(await send([webhook('track')], ['the same'], key), { status: 200, received: true });
    calls += 1;
  }
  t.equal(calls, 2);
});

t.test('refuses malformed and stale envelopes as a whole', async (t) => {
  const { post } = start({ on: { any: () => t.fail('nothing of it is handled') } });
  const sentAt = '"sentAt":"2026-01-01T00:00:00.000Z"';
  const one = JSON.stringify(webhook('track'));
  for (const body of [
    `{"batch":[],"keys":[],${sentAt}}`,
    `{"batch":[${one}],"keys":[],${sentAt}}`,
    `{"batch":[${one}],"keys":[1],${sentAt}}`,
    `{"batch":[${one}],"keys":[""],${sentAt}}`,
    `{"batch":[${one}],"keys":["a"]}`,
    `{"batch":[${one}],"keys":["a"],"sentAt":"yesterday"}`,
    `{"batch":{"0":${one},"length":1},"keys":["a"],${sentAt}}`,
  ]) {
    t.match(await post(body), { status: 400, code: 'invalid_batch' }, body.slice(0, 40));
  }
  const aged = start({ signing: 'standard', maxAge: 60_000, on: { any: () => t.fail('it is too old') } });
  const old = envelope([one], { sentAt: new Date(Date.now() - 120_000) });
  t.match(await aged.post(old, { signing: 'standard' }), { status: 401, code: 'webhook_too_old' });
});

t.test('rejects arrays, texts and nulls in a batch one by one', async (t) => {
  const { send } = start({ on: { track() {} } });
  const { rejected } = (await send(['[]', '"x"', 'null', webhook('track'), '{"type":"__proto__"}'])) as unknown as {
    rejected: { index: number; retry: boolean }[];
  };
  t.same(
    rejected.map(({ index, retry }) => [index, retry]),
    [
      [0, false],
      [1, false],
      [2, false],
    ],
  );
});

/** Bodies with what could be taken for the space between two messages. */
const lookalike = fc.constantFrom(
  [{ a: 1 }, { version: 1, b: 2 }],
  { text: '},{"version":1,' },
  { keys: [['x'], { keys: ['y'] }], sentAt: 'z' },
  { batch: [1], '],"keys":[': 1 },
  JSON.parse('{"__proto__":1}'),
);
const bodies = fc.array(
  fc.record({
    kind: fc.constantFrom('track', 'delete', 'later'),
    properties: fc.dictionary(fc.string(), fc.oneof(fc.jsonValue(), lookalike, fc.array(lookalike))),
  }),
  { minLength: 1, maxLength: 6 },
);

t.test('finds the messages of an envelope, however its JSON is written', async () => {
  fc.assert(
    fc.property(bodies, fc.constantFrom(0, 1, 2), (given, how) => {
      const texts = given.map(({ kind, properties }) => {
        const body = webhook('track', { properties });
        return JSON.stringify(kind === 'delete' ? webhook('delete') : kind === 'later' ? { ...body, type: 'x' } : body);
      });
      const bytes = [
        () => envelope(texts),
        () => JSON.stringify(JSON.parse(envelope(texts)), null, 1),
        () => JSON.stringify(Object.fromEntries(Object.entries(JSON.parse(envelope(texts))).reverse())),
      ][how]?.();
      const parsed = parseBody(Buffer.from(bytes ?? ''));
      if (!('batch' in parsed) || parsed.batch.keys.length !== texts.length) return false;
      return texts.every((text, index) => {
        const message = parsed.batch.message(index);
        return isDeepStrictEqual(message, parseValue(parseJson(text))) && parsed.batch.bytes(index).toString() === text;
      });
    }),
    { numRuns: 2000 },
  );
});

t.test('parses the whole envelope if its pieces mislead', async (t) => {
  const sentAt = '"sentAt":"2026-01-01T00:00:00.000Z"';
  const track = (event: string, properties: object = {}) =>
    JSON.stringify({ ...webhook('track', { event }), properties });
  const events = (text: string) => {
    const parsed = parseBody(Buffer.from(text));
    if (!('batch' in parsed)) return parsed.ok ? 'no batch' : parsed.reason;
    return parsed.batch.keys.map((_, index) => {
      const message = parsed.batch.message(index);
      if (!message.ok) return message.reason;
      return 'event' in message.message ? message.message.event : message.message.type;
    });
  };
  const nested = track('a', { list: [{ b: 1 }, { version: 1, c: 2 }] });
  const notice = JSON.stringify(webhook('delete'));
  // As many pieces as keys, but others.
  t.same(events(`{"batch":[${track('0')},${nested},${notice}],"keys":["1","2","3"],${sentAt}}`), ['0', 'a', 'delete']);
  t.same(events(`{"batch":[${track('a')}],"batch":[${track('b')}],"keys":["1"],${sentAt}}`), ['b']);
  t.same(events(`{"batch":[${track('a')}],"keys":["1"],${sentAt},"batch":[${track('b')}]}`), ['b']);
  t.same(events(`{"batch":[${track('a')}],"keys":["1"],"keys":["1","2"],${sentAt}}`), 'invalid_batch');
  t.same(events(`{"batch":[${track('a')}],"keys":["1"],${sentAt},"type":"track"}`), 'invalid_body');
  const broken = track('b').replace('"type"', 'type');
  t.same(events(`{"batch":[${track('a')},${broken}],"keys":["1","2"],${sentAt}}`), ['a', 'invalid_json']);
  t.same(events(`{"batch":[${track('a')}],"keys":["1"],${sentAt}`), 'invalid_json');
});

t.test("ack 'stored' stores a batch as a whole, each message by its key", async (t) => {
  const store = sqliteStore(':memory:');
  const seen: string[] = [];
  const { send, close } = start({ ack: 'stored', store, on: { track: ({ event }) => void seen.push(event) } });
  const bodies = ['a', 'b'].map((event) => webhook('track', { event }));
  t.same(await send([bodies[0], 'null'], ['1', '2']), {
    status: 200,
    received: true,
    rejected: [{ index: 1, code: 'invalid_body', retry: false }],
  });
  t.same(await send(bodies, ['1', '3']), { status: 200, received: true });
  while (seen.length < 2) await turn();
  t.same(seen.toSorted(), ['a', 'b']);
  await close();
  store.close();
});
