import t from 'tap';
import * as z from 'zod';
import { bodyBuilder } from '../jobs/run/identify-body.ts';
import {
  aliasBody,
  deleteBody,
  groupBody,
  identifyBody,
  pageBody,
  screenBody,
  trackBody,
  type WebhookBody,
  webhookBody,
} from '../receivers/bodies.ts';
import * as kit from '../receivers/index.ts';
import { verify } from '../receivers/signature.ts';
import type {
  AliasMessage,
  AnyMessage,
  GroupMessage,
  IdentifyMessage,
  MessageKind,
  PageMessage,
  ScreenMessage,
  TrackMessage,
} from '../src/client/message.ts';
import { Client } from '../src/client/node/client.ts';
import { batchRequest, prepareEndpoint, singleRequest } from '../src/deliver/request.ts';
import type { Destination, MembershipForm } from '../src/destination.ts';
import { deletionNotice, isRejection, readMessage } from '../src/message.ts';
import { CLIENT_TYPES, type ClientType, MESSAGE_TYPES, type MessageType } from '../src/message-types.ts';
import { holdPage, markdownTable } from './helpers/made-page.ts';

const SECRET = 's3cret';
const OCCURRED = '2026-03-31T12:00:00.000Z';
const RECEIVED_AT = Date.parse('2026-03-31T12:00:01.250Z');
const SENT_AT = Date.parse('2026-03-31T12:00:02.000Z');

const schemas: Readonly<Record<MessageType, z.ZodObject>> = {
  ...{ identify: identifyBody, track: trackBody, page: pageBody, screen: screenBody, group: groupBody },
  ...{ alias: aliasBody, delete: deleteBody },
};

interface Field {
  readonly title?: string;
  readonly type?: string;
  readonly const?: unknown;
  readonly description?: string;
}

const fieldsOf = (kind: MessageType): Readonly<Record<string, Field>> =>
  z.toJSONSchema(schemas[kind], { unrepresentable: 'any' }).properties as Record<string, Field>;
const typeOf = ({ title, type, const: only }: Field) =>
  only === undefined ? (title ?? type ?? 'any') : `\`${JSON.stringify(only)}\``;
const row = (name: string, field: Field) => [`\`${name}\``, typeOf(field), field.description ?? ''];

/** Fields of every body but that of a delete; `type` has no row, as it names the kind. */
const shared = Object.entries(fieldsOf('identify')).filter(([name]) => name !== 'type' && name !== 'traits');
const isShared = (name: string, field: Field) =>
  shared.some(([other, one]) => other === name && JSON.stringify(one) === JSON.stringify(field));

t.test('lists the fields of each kind in docs/wire.md, as the schemas have them', async (t) => {
  for (const kind of MESSAGE_TYPES.filter((each) => each !== 'delete')) {
    const missing = shared.map(([name]) => name).filter((name) => !(name in fieldsOf(kind)));
    t.same(missing, kind === 'alias' ? ['userId'] : [], kind);
  }
  const ofAll = shared.map(([name, field]) => row(name, field));
  const own = MESSAGE_TYPES.flatMap((kind) =>
    Object.entries(fieldsOf(kind))
      .filter(([name, field]) => name !== 'type' && (kind === 'delete' || !isShared(name, field)))
      .map(([name, field]) => [kind, ...row(name, field)]),
  );
  for (const cells of [...ofAll, ...own]) for (const cell of cells) t.not(cell, '');
  holdPage(t, 'docs/wire.md', {
    fields: markdownTable(['field', 'type', 'meaning'], ofAll),
    'fields of kinds': markdownTable(['kind', 'field', 'type', 'meaning'], own),
  });
});

/** The messages of the client library, which shares no code with the rest. */
interface ClientMessages extends Record<ClientType, object> {
  identify: IdentifyMessage;
  track: TrackMessage;
  page: PageMessage;
  screen: ScreenMessage;
  group: GroupMessage;
  alias: AliasMessage;
}

/** Fields that the service writes. */
type Written = 'type' | 'version' | 'originalTimestamp' | 'receivedAt' | 'Previous ID' | 'User ID' | 'anonymousId';
type Lacking<Type extends ClientType> =
  | Exclude<keyof Extract<WebhookBody, { type: Type }>, keyof ClientMessages[Type] | Written>
  | Exclude<keyof ClientMessages[Type], keyof AnyMessage>;

t.test('declares every kind in the client library and the kit, and every field in the client', async (t) => {
  // If this does not compile, the error names the fields that src/client/message.ts lacks.
  const all = 'complete' as const;
  const client: { readonly [Type in ClientType]: [Lacking<Type>] extends [never] ? typeof all : Lacking<Type> } = {
    ...{ identify: all, track: all, page: all, screen: all, group: all, alias: all },
  };
  const kinds: Readonly<Record<MessageKind, unknown>> = client;
  t.same(Object.keys(kinds), CLIENT_TYPES);
  for (const type of CLIENT_TYPES) t.type(Client.prototype[type], 'function');
  const plugins = new Set(Object.keys(kit));
  for (const type of MESSAGE_TYPES) t.ok(plugins.has(`on${type.charAt(0).toUpperCase()}${type.slice(1)}`), type);
});

/** A client's message, for each kind that clients send. */
const sent: Readonly<Record<ClientType, Record<string, unknown>>> = {
  identify: { userId: 'u1', traits: { plan: 'pro' } },
  track: { userId: 'u1', event: 'Order Completed', properties: { total: 25.5 } },
  page: { anonymousId: 'a1', name: 'Shoes', properties: { url: 'https://shop.example.com/shoes', title: 'Shoes' } },
  screen: { userId: 'u1', name: 'Basket', context: { os: { name: 'iOS', version: '19.1' } } },
  group: { userId: 'u1', groupId: 'g1', traits: { name: 'Initech' } },
  alias: { previousId: 'u1', userId: 'u2' },
};

function bodyOf(type: ClientType): string {
  const input = { ...sent[type], messageId: `m-${type}`, timestamp: OCCURRED };
  const message = readMessage(input, { type, receivedAt: RECEIVED_AT, newId: () => 'new' });
  if (isRejection(message)) throw new Error(message.message);
  return message.body;
}

const bodies: Readonly<Record<string, string>> = {
  ...Object.fromEntries(Object.keys(sent).map((type) => [type, bodyOf(type as keyof typeof sent)])),
  delete: deletionNotice('u1', 'm-delete', RECEIVED_AT).body,
};
const membership = (kind: 'audience' | 'trait', key: string, value: string | null, form?: MembershipForm) =>
  bodyBuilder(
    {
      kind,
      key,
      name: kind === 'audience' ? 'Big Spenders' : 'Lifetime Value',
      columns: kind === 'trait' ? [key] : ['email'],
      removed: [],
      at: Date.parse(OCCURRED),
      now: () => RECEIVED_AT,
    },
    form,
  )('m-change', {
    ...{ userId: 'u1', present: true, value, sequence: 1_774_958_400_000_001 },
    ...{ reason: 'entered', changedAt: Date.parse(OCCURRED), cause: null },
  });

const endpoint = { id: 'e1', url: 'https://crm.example.com/hooks', headers: { 'x-env': 'prod' } };
const destination: Destination = {
  ...{ name: 'crm', enabled: true, sources: ['shop'], secrets: [SECRET], signing: 'both' },
  ...{ endpoints: [endpoint], require: 'any', ratePerSecond: null },
};
const prepared = prepareEndpoint(endpoint, destination, 'Rollcall');

function requestText({ path, headers, body }: ReturnType<typeof singleRequest>): string {
  const lines = headers.flatMap((name, index) => (index % 2 === 0 ? [`${name}: ${headers[index + 1]}`] : []));
  return ['```http', `POST ${path} HTTP/1.1`, ...lines, '', body.toString(), '```', ''].join('\n');
}

const single = singleRequest(
  prepared,
  { id: '7cfbeac35f-1f', body: Buffer.from(bodies['track'] ?? '') },
  () => SENT_AT,
);
const items = ['track', 'delete'].map((kind, index) => ({
  key: `7cfbeac35f-${index}`,
  body: Buffer.from(bodies[kind] ?? ''),
}));
const batch = batchRequest(prepared, items, () => SENT_AT);
const block = (lines: readonly string[]) => ['```json', ...lines, '```', ''].join('\n');

t.test('shows requests in docs/wire.md as they are made', async (t) => {
  const changes = [
    membership('audience', 'big_spenders', null),
    membership('trait', 'lifetime_value', '{"lifetime_value":812.4}'),
    membership('audience', 'big_spenders', '{"email":"ada@example.com"}', 'track'),
    membership('trait', 'lifetime_value', '{"lifetime_value":812.4}', 'track'),
  ];
  holdPage(t, 'docs/wire.md', {
    request: requestText(single),
    bodies: block(MESSAGE_TYPES.map((kind) => bodies[kind] ?? '')),
    membership: block(changes),
    batch: requestText(batch),
  });
});

t.test('shows signed bodies that parse as they are and that receivers accept', async (t) => {
  for (const { body, headers } of [single, batch]) {
    const signature = headers[headers.indexOf('x-signature') + 1];
    t.equal(verify(body, signature, SECRET).ok, true);
  }
  const event = membership('audience', 'big_spenders', '{"email":"ada@example.com"}', 'track');
  const all = [...Object.values(bodies), membership('audience', 'big_spenders', null), event];
  for (const body of all) {
    t.equal(JSON.stringify(JSON.parse(body)), body);
    t.same(webhookBody.parse(JSON.parse(body)), JSON.parse(body));
  }
});
