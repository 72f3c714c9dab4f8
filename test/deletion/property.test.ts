import { randomInt } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import { send } from '../events/helpers/logging-app.ts';
import { caughtUp, membersOf } from '../live/helpers/service.ts';
import { deletingService, deliveredLater, everything, forget } from './helpers/deleting-service.ts';

/** RUNS=N makes a long run, DELETION_SEED=N repeats one. */
const RUNS = Number(process.env['RUNS'] ?? 12);
const SEED = Number(process.env['DELETION_SEED'] ?? randomInt(2 ** 31));
t.comment(`DELETION_SEED=${SEED}`);

const USERS = 5;
const DEVICES = 4;
const user = fc.integer({ min: 0, max: USERS - 1 });
const device = fc.integer({ min: 0, max: DEVICES - 1 });

/** Numbers stand for users, and beyond those for devices. */
const action = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ type: fc.constant('buys' as const), user: fc.option(user), device: fc.option(device) }),
  },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('identify' as const), user, device }) },
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant('alias' as const),
      former: fc.integer({ min: 0, max: USERS + DEVICES - 1 }),
      user,
    }),
  },
);
const history = fc.record({
  actions: fc.array(action, { minLength: 4, maxLength: 16 }),
  named: fc.uniqueArray(user, { minLength: 1, maxLength: 2 }),
  /** The endpoint accepts nothing before the request. Its next probe takes a while, so this is rare. */
  isDown: fc.integer({ min: 0, max: 9 }).map((chance) => chance === 0),
});
type History = typeof history extends fc.Arbitrary<infer T> ? T : never;

interface Message {
  readonly type: 'track' | 'identify' | 'alias';
  readonly messageId: string;
  readonly userId?: string;
  readonly anonymousId?: string;
  readonly previousId?: string;
}

function messagesOf({ actions }: History, prefix: string): readonly Message[] {
  const id = (place: number) => (place < USERS ? `${prefix}-user-${place}` : `${prefix}-device-${place - USERS}`);
  return actions.flatMap((each, place): Message[] => {
    const messageId = `${prefix}-m${String(place).padStart(2, '0')}`;
    if (each.type === 'alias')
      return [{ type: 'alias', messageId, userId: id(each.user), previousId: id(each.former) }];
    const anonymousId = each.device === null ? undefined : id(USERS + each.device);
    if (each.type === 'identify')
      return [{ type: 'identify', messageId, userId: id(each.user), ...(anonymousId && { anonymousId }) }];
    if (each.user === null && anonymousId === undefined) return [];
    return [
      {
        type: 'track',
        messageId,
        ...(each.user !== null && { userId: id(each.user) }),
        ...(anonymousId && { anonymousId }),
      },
    ];
  });
}

/** The law in its simplest form. */
class People {
  private readonly messages: readonly Message[];

  constructor(messages: readonly Message[]) {
    this.messages = messages;
  }

  /** The ids from a user to the one that it finally belongs to. */
  way(id: string): readonly string[] {
    const next = (from: string) =>
      this.messages.findLastIndex((each) => each.type === 'alias' && each.previousId === from && each.userId !== from);
    const way = [id];
    for (let place = next(id); place >= 0; place = next(way.at(-1) ?? id)) {
      const to = this.messages[place]?.userId ?? '';
      const begin = way.indexOf(to);
      if (begin >= 0) {
        const latest = Math.max(...way.slice(begin).map(next));
        const end = this.messages[latest]?.userId ?? '';
        // All the way around, but no further than where the circle ends.
        const around = [...way, ...way.slice(begin)];
        return around.slice(0, around.indexOf(end, around.indexOf(id)) + 1);
      }
      way.push(to);
    }
    return way;
  }

  ownerOf(device: string): string | null {
    const first = this.messages.find(
      ({ type, anonymousId, previousId }) =>
        (type === 'identify' && anonymousId === device) || (type === 'alias' && previousId === device),
    );
    return first?.userId ?? null;
  }

  purchases(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>();
    for (const { type, userId, anonymousId = '' } of this.messages) {
      const who = type === 'track' ? (userId ?? this.ownerOf(anonymousId)) : null;
      const person = who === null ? undefined : this.way(who).at(-1);
      if (person !== undefined) counts.set(person, (counts.get(person) ?? 0) + 1);
    }
    return new Map([...counts].toSorted(([a], [b]) => (a < b ? -1 : 1)));
  }
}

function idsOf(messages: readonly Message[], named: readonly string[]) {
  const people = new People(messages);
  const all = new Set(messages.flatMap(({ userId, previousId }) => [userId ?? [], previousId ?? []].flat()));
  const devices = new Set(messages.flatMap(({ anonymousId }) => anonymousId ?? []));
  const users = new Set([
    ...named,
    ...[...all].filter((id) => !devices.has(id) && people.way(id).some((each) => named.includes(each))),
  ]);
  const anonymous = new Set([...devices].filter((id) => users.has(people.ownerOf(id) ?? '')));
  return { users, anonymous };
}

function left(messages: readonly Message[], { users, anonymous }: ReturnType<typeof idsOf>): readonly Message[] {
  return messages.flatMap((message): Message[] => {
    const { userId, anonymousId, previousId, ...rest } = message;
    if (userId !== undefined && users.has(userId)) return [];
    if (previousId !== undefined && (users.has(previousId) || anonymous.has(previousId))) return [];
    if (anonymousId === undefined || !anonymous.has(anonymousId)) return [message];
    return userId === undefined ? [] : [{ ...rest, userId }];
  });
}

t.test('deletes people, whatever ids they had, and leaves others what is theirs', async (t) => {
  const common = { source: 'personas', value: { count: 'Bought' }, guard: { allowEmpty: true } };
  const service = await deletingService(t, {
    audiences: [],
    traits: [
      { ...common, name: 'Live', live: true },
      { ...common, name: 'Scheduled', schedule: '0 0 1 1 *' },
    ],
  });
  const { app, endpoint, folder, url } = service;
  await caughtUp(app);
  let histories = 0;
  const values = async (key: 'live' | 'scheduled', prefix: string) => {
    if (key === 'live') await caughtUp(app);
    else for (const { error } of await app.sync.run([key])) if (error) throw error;
    return [...(await membersOf(app, key))].filter(([id]) => id.startsWith(prefix));
  };
  const play = async (given: History) => {
    histories += 1;
    const prefix = `h${SEED.toString(36)}x${histories}`;
    const messages = messagesOf(given, prefix);
    const named = given.named.map((place) => `${prefix}-user-${place}`);
    const ids = idsOf(messages, named);
    endpoint.status = given.isDown ? 503 : 200;
    // One after the other, so that each has a time of its own.
    const at = (place: number) => new Date(service.clock.now() - 1_000 + place).toISOString();
    const batch = messages.map((each, place) => ({ ...each, event: 'Bought', timestamp: at(place) }));
    if (batch.length > 0) await send(app, batch);
    const before = new Map(await values('live', prefix));
    if (!given.isDown) await deliveredLater(service);
    const begun = endpoint.posts.length;
    assertEqual(await forget(app, named), 'FINISHED', 'status');
    endpoint.status = 200;
    await deliveredLater(service);
    const remains = left(messages, ids);
    const expected = [...new People(remains).purchases()];
    assertEqual(await values('live', prefix), expected, 'live');
    assertEqual(await values('scheduled', prefix), expected, 'scheduled');
    for (const [person, count] of expected)
      if (count > Number(before.get(person) ?? 0))
        throw new Error(`${person} gained: ${before.get(person)} → ${count}`);
    await deliveredLater(service);
    const posts = endpoint.posts.slice(begun).filter(({ text }) => text.includes(prefix));
    const notices = posts.filter(({ type }) => type === 'delete').map(({ userId }) => String(userId));
    assertEqual([...new Set(notices)].toSorted(), [...ids.users].toSorted(), 'notices');
    assertEqual(notices.length, 2 * ids.users.size, 'one notice of each user id and source');
    const gone = [...ids.users, ...ids.anonymous];
    for (const { type, text } of posts)
      if (type !== 'delete') for (const id of gone) if (text.includes(`"${id}"`)) throw new Error(`posted: ${text}`);
    // Messages of others are still delivered.
    if (given.isDown)
      for (const { messageId } of remains)
        if (!posts.some((post) => post.messageId === messageId)) throw new Error(`${messageId} is lost`);
    for (const [place, text] of await everything(folder, url))
      for (const id of gone)
        if (text.includes(id))
          throw new Error(
            `${id} is in ${place}: ${text.slice(Math.max(0, text.indexOf(id) - 80), text.indexOf(id) + 80)}`,
          );
  };
  await fc.assert(fc.asyncProperty(history, play), {
    numRuns: RUNS,
    seed: SEED,
    examples: EXAMPLES.map((each) => [each]),
    endOnFailure: true,
  });
  t.comment(`${histories} histories`);
  t.ok(histories >= RUNS);
});

function assertEqual(found: unknown, wanted: unknown, what: string): void {
  const [one, other] = [JSON.stringify(found), JSON.stringify(wanted)];
  if (one !== other) throw new Error(`${what}: ${one} instead of ${other}`);
}

const alias = (former: number, to: number) => ({ type: 'alias' as const, former, user: to });
const EXAMPLES: readonly History[] = [
  // A device that stays with its first user, aliased to a user without events, who is deleted.
  {
    actions: [{ type: 'identify', user: 4, device: 0 }, { type: 'buys', user: null, device: 0 }, alias(USERS, 0)],
    named: [0],
    isDown: false,
  },
  // A device of the first, aliased to the second, who is deleted; the third was identified with it.
  {
    actions: [
      { type: 'buys', user: null, device: 0 },
      alias(USERS, 0),
      alias(USERS, 1),
      { type: 'identify', user: 2, device: 0 },
    ],
    named: [1],
    isDown: true,
  },
  // A circle that ends at its first id.
  {
    actions: [
      { type: 'buys', user: 0, device: null },
      { type: 'buys', user: 1, device: null },
      alias(0, 1),
      alias(1, 0),
    ],
    named: [1],
    isDown: false,
  },
  {
    actions: [{ type: 'buys', user: 0, device: 1 }, { type: 'buys', user: 1, device: null }, alias(0, 1), alias(1, 0)],
    named: [0],
    isDown: false,
  },
];
