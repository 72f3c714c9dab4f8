import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { webhookBody } from '../../receivers/bodies.ts';
import { basicWriteKey } from '../../src/collect/write-keys.ts';
import { INTEGRATION_NAME } from '../../src/route/route.ts';
import { NOW, type Service, startService } from './service.ts';

/** Requests of real clients, as they arrived at a server that took notes. */
const folder = join(import.meta.dirname, 'recorded');

interface Capture {
  readonly method: 'POST';
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Batch & { readonly batch: readonly Item[] };
}
interface Batch {
  readonly writeKey?: string;
  readonly sentAt?: string;
  /** Of all its messages: Go v3 says there which library it is. */
  readonly context?: Item;
}
type Item = Readonly<Record<string, unknown>>;

const files = readdirSync(folder).filter((file) => file.endsWith('.json'));
const captures = (file: string): Capture[] => JSON.parse(readFileSync(join(folder, file), 'utf8'));

async function replay({ app }: Service, { method, url, headers, body }: Capture) {
  const { 'content-length': _, ...asCaptured } = headers;
  const json = JSON.stringify(body);
  const payload = headers['content-encoding'] === 'gzip' ? gzipSync(json) : json;
  return app.inject({ method, url, headers: asCaptured, payload });
}

const IDS = ['userId', 'anonymousId', 'groupId', 'previousId', 'messageId'];
const isEmptyList = (value: unknown) => Array.isArray(value) && value.length === 0;

/** The item as it would be with ids as text, and empty objects as such. */
function normal(item: Item): Item {
  const fields = Object.entries(item).map(([name, value]) => {
    if (IDS.includes(name) && typeof value === 'number') return [name, `${value}`];
    return [name, name === 'integrations' && isEmptyList(value) ? {} : value];
  });
  return Object.fromEntries(fields);
}

/** The expected body, worked out from the item without help of the code under test. */
function expectedBody(given: Item, batch: Batch): Item {
  const item = normal(given);
  const { type, context, integrations, sentAt, timestamp, originalTimestamp, _metadata, messageId, ...rest } = item;
  const parse = (text: unknown) => Date.parse(String(text).replace(/\+0000$/, 'Z'));
  const original = timestamp ?? originalTimestamp;
  const sent = sentAt ?? batch.sentAt;
  const time = sent === undefined ? parse(original) : NOW - (parse(sent) - parse(original));
  const receivedAt = new Date(NOW).toISOString();
  const common = { version: 1, type, timestamp: new Date(time).toISOString(), receivedAt };
  const { userId, previousId, ...others } = rest;
  const fields = type === 'alias' ? { ...others, 'Previous ID': previousId, 'User ID': userId } : rest;
  const details = { identify: 'traits', group: 'traits', track: 'properties', page: 'properties' }[String(type)];
  const present = Object.entries({ ...fields, messageId, integrations }).filter(([, value]) => value != null);
  return {
    ...(details && { [details]: {} }),
    ...Object.fromEntries(present),
    ...common,
    context: { ...batch.context, ...(context as Item | undefined) },
    ...(sent !== undefined && { originalTimestamp: original }),
  };
}

async function check(t: Test, service: Service, capture: Capture) {
  const answer = await replay(service, capture);
  t.equal(answer.statusCode, 200);
  t.strictSame(answer.json(), { success: true });
  const { source, messages } = service.accepted.pop() ?? { source: null, messages: [] };
  t.equal(source, basicWriteKey(capture.headers['authorization']) ?? capture.body.writeKey);
  t.equal(messages.length, capture.body.batch.length);
  for (const [index, message] of messages.entries()) {
    const item = capture.body.batch[index] as Item;
    t.strictSame(JSON.parse(message.body), expectedBody(item, capture.body), `${item['type']} body`);
    t.ok(webhookBody.safeParse(JSON.parse(message.body)).success, 'receivers take it');
    t.equal(message.messageId, item['messageId']);
    t.equal(message.userId, normal(item)['userId'] ?? null);
    const said = normal(item)['integrations'] as Item | undefined;
    t.strictSame(message.integrations, said && Object.keys(said).length > 0 ? said : null);
    if (said?.[INTEGRATION_NAME]) t.strictSame(message.integrations?.[INTEGRATION_NAME], said[INTEGRATION_NAME]);
  }
}

t.test('accepts every recorded request of a real client', async (t) => {
  const service = startService(t, {
    sources: () => sources,
  });
  const all = files.flatMap(captures);
  const keys = all.map(({ headers, body }) => basicWriteKey(headers['authorization']) ?? body.writeKey ?? '');
  const sources = [...new Set(keys)].map((key) => ({ id: key, writeKey: key, enabled: true }));
  t.ok(files.length >= 7 && sources.length >= 5, 'there are some');
  for (const file of files) {
    for (const [index, capture] of captures(file).entries()) {
      await t.test(`${file} ${index}`, (t) => check(t, service, capture));
    }
  }
});

t.test('accepts requests of clients that were not captured, as their sources write them', async (t) => {
  const service = startService(t, { sources: () => [{ id: 'WK', writeKey: 'WK', enabled: true }] });
  const item = {
    ...{ type: 'track', event: 'e', userId: 'u', messageId: 'm', context: {} },
    timestamp: '2026-11-21T02:35:56.123Z',
  };
  const body = { batch: [item], writeKey: 'WK', sentAt: '2026-11-21T02:36:00.000Z' };
  const basic = { authorization: 'Basic V0s6' };
  const nanoseconds = {
    ...body,
    batch: [{ ...item, timestamp: '2026-11-21T02:35:56.123456789Z', integrations: { all: false } }],
  };
  const clients: Record<string, Omit<Capture, 'method'>> = {
    'Kotlin: text with gzip, key in the body': {
      url: '/v1/b',
      headers: { 'content-type': 'text/plain', 'content-encoding': 'gzip' },
      body,
    },
    'Swift: JSON, key in the body': {
      url: '/v1/b',
      headers: { 'content-type': 'application/json; charset=utf-8' },
      body,
    },
    'C#: no content type, gzip, key in the body': { url: '/v1/import', headers: { 'content-encoding': 'gzip' }, body },
    'Java: a final slash': { url: '/v1/import/', headers: { ...basic, 'content-type': 'application/json' }, body },
    'Go v3: nanoseconds, lowercase all': { url: '/v1/batch', headers: basic, body: nanoseconds },
    'PHP and Ruby: an offset': {
      url: '/v1/import',
      headers: basic,
      body: { batch: [{ ...item, timestamp: '2026-11-21T02:35:56.123+00:00' }], sentAt: '2026-11-21T02:36:00+00:00' },
    },
    'no sentAt': { url: '/v1/batch', headers: basic, body: { batch: [item] } },
  };
  for (const [name, capture] of Object.entries(clients)) {
    await t.test(name, (t) => check(t, service, { method: 'POST', ...capture }));
  }
});

t.test('accepts a call of a page as text with the key in the body', async (t) => {
  const service = startService(t);
  const answer = await service.app.inject({
    method: 'POST',
    url: '/v1/p',
    headers: { 'content-type': 'text/plain', origin: 'https://shop.example' },
    payload: JSON.stringify({
      writeKey: 'WK_shop',
      anonymousId: 'a',
      properties: { path: '/' },
      sentAt: null,
      userId: null,
    }),
  });
  t.equal(answer.statusCode, 200);
  t.match(JSON.parse(service.accepted[0]?.messages[0]?.body ?? ''), {
    type: 'page',
    anonymousId: 'a',
    properties: { path: '/' },
  });
});
