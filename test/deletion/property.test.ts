import { createHash, randomInt } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import { send } from '../events/helpers/logging-app.ts';
import { isOnPostgres } from '../helpers/store.ts';
import { caughtUp, membersOf } from '../live/helpers/service.ts';
import { deletingService, deliveredLater, everything, forget } from './helpers/deleting-service.ts';

/** RUNS=N makes a long run, DELETION_SEED=N repeats one. */
const RUNS = Number(process.env['RUNS'] ?? 20);
const SEED = Number(process.env['DELETION_SEED'] ?? randomInt(2 ** 31));
/** Histories played together, each with ids of its own, since most of the cost is the service's. */
const TOGETHER = Math.min(RUNS, 100);
/** Deletion requests for the histories of a round. */
const REQUESTS = 4;
t.comment(`DELETION_SEED=${SEED}`);

const USERS = 5;
const DEVICES = 4;
const user = fc.integer({ min: 0, max: USERS - 1 });
const device = fc.integer({ min: 0, max: DEVICES - 1 });

/** Numbers stand for users, and beyond those for devices. */
const action = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant('buys' as const),
      user: fc.option(user),
      device: fc.option(device),
      n: fc.integer({ min: 0, max: 2 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant('identify' as const),
      user,
      device,
      plan: fc.constantFrom('pro', 'free'),
    }),
  },
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
  /** Milliseconds after the request until the first named user buys again; null for never. */
  returns: fc.option(fc.integer({ min: 0, max: 3_000 }), { freq: 3 }),
});
const round = fc.record({
  histories: fc.array(history, { minLength: TOGETHER, maxLength: TOGETHER }),
  /** The endpoint accepts nothing before the request. */
  isDown: fc.boolean(),
});
type History = typeof history extends fc.Arbitrary<infer T> ? T : never;
type Round = typeof round extends fc.Arbitrary<infer T> ? T : never;

interface Message {
  readonly type: 'track' | 'identify' | 'alias';
  readonly messageId: string;
  readonly userId?: string;
  readonly anonymousId?: string;
  readonly previousId?: string;
  readonly properties?: { readonly n: number };
  readonly traits?: { readonly plan: string };
}

function messagesOf({ actions }: History, prefix: string): readonly Message[] {
  const id = (place: number) => (place < USERS ? `${prefix}user-${place}` : `${prefix}device-${place - USERS}`);
  return actions.flatMap((each, place): Message[] => {
    const messageId = `${prefix}m${String(place).padStart(2, '0')}`;
    if (each.type === 'alias')
      return [{ type: 'alias', messageId, userId: id(each.user), previousId: id(each.former) }];
    const anonymousId = each.device === null ? undefined : id(USERS + each.device);
    if (each.type === 'identify') {
      const traits = { plan: each.plan };
      return [{ type: 'identify', messageId, traits, userId: id(each.user), ...(anonymousId && { anonymousId }) }];
    }
    if (each.user === null && anonymousId === undefined) return [];
    return [
      {
        type: 'track',
        messageId,
        properties: { n: each.n },
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

  /** Everybody's value of each definition. */
  values(): Values {
    const bought = new Map<string, number[]>();
    const plans = new Map<string, string>();
    const typed = new Set<string>();
    const seen = new Set<string>();
    for (const { userId, anonymousId = '', properties, traits } of this.messages) {
      const who = userId ?? this.ownerOf(anonymousId);
      const person = who === null ? undefined : this.way(who).at(-1);
      if (person === undefined) continue;
      seen.add(person);
      if (traits) plans.set(person, traits.plan);
      if (!properties) continue;
      bought.set(person, [...(bought.get(person) ?? []), properties.n]);
      if (userId !== undefined) typed.add(userId);
    }
    const twice = [...bought].flatMap(([person, all]) => (all.length > 1 ? person : []));
    const members = (ids: Iterable<string>) => new Map([...ids].map((id) => [id, true]));
    return {
      count: new Map([...bought].map(([person, all]) => [person, all.length])),
      first: new Map([...bought].map(([person, [first]]) => [person, first])),
      list: new Map([...bought].map(([person, all]) => [person, [...new Set(all)].toSorted()])),
      twice: members(twice),
      pro: members([...plans].flatMap(([person, plan]) => (plan === 'pro' ? person : []))),
      mixed: members(twice.filter((person) => plans.get(person) !== 'pro')),
      typists: members([...typed].map((id) => this.way(id).at(-1) ?? id)),
      typed: members(typed),
      rising: members(
        [...bought].flatMap(([person, all]) => (all.includes(1) && all.lastIndexOf(2) > all.indexOf(1) ? person : [])),
      ),
      unsold: members(seen),
      half: members([...bought.keys()].filter(isInHalf)),
    };
  }
}

/** The place as docs/definitions.md says. */
const isInHalf = (id: string) =>
  createHash('sha256').update(`half:${id}`).digest().readBigUInt64BE() % 10_000n < 5_000n;

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

/** Each is computed live and scheduled. */
const TRAITS = {
  count: { count: 'Bought' },
  first: { first: 'Bought', of: 'properties.n' },
  list: { uniqueList: 'Bought', of: 'properties.n' },
};
const AUDIENCES = {
  twice: { performed: 'Bought', atLeast: 2 },
  pro: { trait: 'plan', is: 'pro' },
  mixed: { all: [{ inAudience: 'twice' }, { not: { trait: 'plan', is: 'pro' } }] },
  typists: { inAudience: 'typed' },
  rising: { sequence: [1, 2].map((n) => ({ performed: 'Bought', where: { 'properties.n': { is: n } } })) },
  unsold: { not: { performed: 'Sold' } },
  half: {
    all: [{ performed: 'Bought', within: '1 hour', firstTime: true }, { split: { name: 'half', from: 0, to: 50 } }],
  },
};
/** By SQL over ids as they were sent. */
const TYPED = `SELECT DISTINCT user_id FROM ${isOnPostgres ? 'rollcall_events.tracks' : 'rollcall_tracks'} WHERE user_id IS NOT NULL`;
const KEYS = [...Object.keys(TRAITS), ...Object.keys(AUDIENCES)] as const;

/** Values by user, by the key of the definition. */
type Values = Readonly<Record<string, ReadonlyMap<string, unknown>>>;

function configured() {
  const common = { source: 'personas', guard: { allowEmpty: true } };
  const both = (definitions: object, kind: 'when' | 'value') =>
    Object.entries(definitions).flatMap(([name, definition]) => [
      { ...common, name, schedule: '0 0 1 1 *', [kind]: definition },
      { ...common, name: `${name} live`, live: true, [kind]: definition },
    ]);
  const typed = { ...common, name: 'typed', schedule: '0 0 1 1 *', sql: TYPED };
  return { audiences: [typed, ...both(AUDIENCES, 'when')], traits: both(TRAITS, 'value') };
}

t.test('deletes people, whatever ids they had, and leaves others what is theirs', async (t) => {
  const service = await deletingService(t, configured());
  const { app, endpoint, folder, url } = service;
  await caughtUp(app);
  let count = 0;
  /** The values of all definitions, and the same live. */
  const computed = async (): Promise<readonly [Values, Values]> => {
    for (const { error } of await app.sync.run(['typed', ...KEYS])) if (error) throw error;
    await caughtUp(app);
    const read = async (suffix: string) =>
      Object.fromEntries(await Promise.all(KEYS.map(async (key) => [key, await membersOf(app, `${key}${suffix}`)])));
    return [{ ...(await read('')), typed: await membersOf(app, 'typed') }, await read('_live')];
  };
  const play = async ({ histories, isDown }: Round) => {
    const stories = histories.map((given) => {
      count += 1;
      const prefix = `h${SEED.toString(36)}x${count}-`;
      const messages = messagesOf(given, prefix);
      const named = given.named.map((place) => `${prefix}user-${place}`);
      const again: Message = {
        ...{ type: 'track', messageId: `${prefix}again`, properties: { n: 0 } },
        userId: named[0] ?? '',
      };
      return { given, prefix, messages, named, again, ids: idsOf(messages, named) };
    });
    endpoint.status = isDown ? 503 : 200;
    // One after the other, so that each has a time of its own.
    const at = (place: number) => new Date(service.clock.now() - 1_000 + place).toISOString();
    const sent = (messages: readonly Message[]) =>
      send(
        app,
        messages.map((each, place) => ({ ...each, event: 'Bought', timestamp: at(place) })),
      );
    for (const { messages } of stories) if (messages.length > 0) await sent(messages);
    const [scheduledBefore, liveBefore] = await computed();
    for (const { prefix, messages } of stories) {
      assertEqual(scheduledBefore, new People(messages).values(), prefix, 'scheduled before');
      assertEqual(liveBefore, new People(messages).values(), prefix, 'live before');
    }
    if (!isDown) await deliveredLater(service);
    const begun = endpoint.posts.length;
    const requests = Map.groupBy(stories, (_, place) => place % REQUESTS);
    await Promise.all([
      ...[...requests.values()].map(async (some) => {
        const status = await forget(
          app,
          some.flatMap(({ named }) => named),
        );
        if (status !== 'FINISHED') throw new Error(`a deletion is ${status}`);
      }),
      ...stories.map(async ({ given: { returns }, again }) => {
        if (returns === null) return;
        await new Promise((resolve) => setTimeout(resolve, returns));
        await sent([again]);
      }),
    ]);
    endpoint.status = 200;
    // Live state waits for the end of a deletion before somebody who returned enters.
    service.advance(1_000);
    await deliveredLater(service);
    const [scheduled, live] = await computed();
    await deliveredLater(service);
    const posts = endpoint.posts.slice(begun);
    const traces = new Map<string, string>();
    for (const [place, text] of await everything(folder, url))
      for (const { 0: id, index } of text.matchAll(/h\w+x\d+-(?:user|device)-\d/g))
        traces.set(id, `${traces.get(id) ?? ''}\n${place}: ${text.slice(Math.max(0, index - 80), index + 80)}`);
    for (const { given, prefix, messages, again, ids } of stories) {
      const remains = left(messages, ids);
      // An event of the time of the deletion is kept or not. Either way all agree.
      const returned = given.returns !== null && scheduled['count']?.has(String(again.userId)) ? [again] : [];
      const expected = new People([...remains, ...returned]).values();
      assertEqual(scheduled, expected, prefix, 'scheduled');
      assertEqual(live, expected, prefix, 'live');
      for (const [person, purchases] of expected['count'] ?? [])
        if (person !== returned[0]?.userId && Number(purchases) > Number(liveBefore['count']?.get(person) ?? 0))
          throw new Error(`${person} gained`);
      const own = posts.filter(({ text }) => text.includes(prefix));
      const notices = own.filter(({ type }) => type === 'delete');
      same([...new Set(notices.map(({ userId }) => userId))].toSorted(), [...ids.users].toSorted(), 'notices');
      // An answer that comes too late is followed by the same notice again.
      const keys = new Set(notices.map(({ key }) => key));
      same(keys.size, 2 * ids.users.size, 'one notice of each user id and source');
      const gone = [...ids.users, ...ids.anonymous];
      const firstNotice = own.findIndex(({ type }) => type === 'delete');
      for (const [place, { type, text }] of own.entries()) {
        const found = gone.find((id) => (given.returns === null || id !== again.userId) && text.includes(`"${id}"`));
        // Until the request is carried out, the person is still one with their former ids.
        const isReturn = place < firstNotice && text.includes(again.messageId);
        if (type !== 'delete' && found !== undefined && !isReturn) throw new Error(`posted: ${text}`);
      }
      // Messages of others are still delivered.
      if (isDown)
        for (const { messageId } of remains)
          if (!own.some((post) => post.messageId === messageId)) throw new Error(`${messageId} is lost`);
      for (const id of gone)
        if (id !== returned[0]?.userId && traces.has(id)) throw new Error(`${id} is in ${traces.get(id)}`);
    }
  };
  await fc.assert(fc.asyncProperty(round, play), {
    numRuns: 2 + Math.ceil(RUNS / TOGETHER),
    seed: SEED,
    examples: [true, false].map((isDown) => [{ histories: EXAMPLES, isDown }]),
    endOnFailure: true,
  });
  t.comment(`${count} histories`);
  t.ok(count >= RUNS);
});

function same(found: unknown, wanted: unknown, what: string): void {
  const [one, other] = [JSON.stringify(found), JSON.stringify(wanted)];
  if (one !== other) throw new Error(`${what}: ${one} instead of ${other}`);
}

/** Compares the values of those whose ids begin with a prefix. */
function assertEqual(found: Values, wanted: Values, prefix: string, what: string): void {
  const own = (values: ReadonlyMap<string, unknown> = new Map()) =>
    [...values].filter(([id]) => id.startsWith(prefix)).toSorted(([a], [b]) => (a < b ? -1 : 1));
  for (const key of Object.keys(found)) same(own(found[key]), own(wanted[key]), `${what}, ${key}`);
}

const alias = (former: number, to: number) => ({ type: 'alias' as const, former, user: to });
const buys = (user: number | null, device: number | null = null) => ({ type: 'buys' as const, user, device, n: 1 });
const identify = (user: number, device: number) => ({ type: 'identify' as const, user, device, plan: 'pro' as const });
const EXAMPLES: History[] = [
  // A device that stays with its first user, aliased to a user without events, who is deleted.
  {
    actions: [identify(4, 0), buys(null, 0), alias(USERS, 0)],
    named: [0],
    returns: null,
  },
  // A device of the first, aliased to the second, who is deleted; the third was identified with it.
  {
    actions: [buys(null, 0), alias(USERS, 0), alias(USERS, 1), identify(2, 0)],
    named: [1],
    returns: null,
  },
  // A circle that ends at its first id.
  {
    actions: [buys(0), buys(1), alias(0, 1), alias(1, 0)],
    named: [1],
    returns: null,
  },
  {
    actions: [buys(0, 1), buys(1), alias(0, 1), alias(1, 0)],
    named: [0],
    returns: null,
  },
];
