import { EventEmitter, once } from 'node:events';
import type { Server } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { Arrivals } from '../../src/collect/arrivals.ts';
import { authorization, type Service, startService, track } from './service.ts';

/** One request, as it stands on the wire. */
function requestOf(userId: string, body = JSON.stringify({ ...track, userId })): string {
  const headers = `host: a\r\nauthorization: ${authorization}\r\ncontent-length: ${body.length}`;
  return `POST /v1/track HTTP/1.1\r\n${headers}\r\n\r\n${body}`;
}

/** Connections that the server has, and on which nothing has come yet. */
async function connections(t: Test, service: Service, count: number): Promise<Socket[]> {
  const { hostname, port } = new URL(await service.url());
  let missing = count;
  const all = Promise.withResolvers<void>();
  const onConnection = () => {
    missing -= 1;
    if (missing === 0) all.resolve();
  };
  service.app.server.on('connection', onConnection);
  const sockets = Array.from({ length: count }, () => connect(Number(port), hostname).on('error', () => {}));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
  });
  await all.promise;
  service.app.server.off('connection', onConnection);
  return sockets;
}

/** The users whose messages were taken, in order. */
function usersOf({ accepted }: Service): (string | null)[] {
  return accepted.flatMap(({ messages }) => messages.map(({ userId }) => userId));
}

t.test('serves a known connection before most of hundreds of new ones that send at once', async (t) => {
  const service = startService(t);
  const [honest] = (await connections(t, service, 1)) as [Socket];
  honest.write(requestOf('first'));
  await once(honest, 'data');
  const crowd = await connections(t, service, 300);
  const answers = crowd.map((socket) => once(socket, 'data'));
  // All of it has come before the server's next look.
  for (const [index, socket] of crowd.entries()) socket.write(requestOf(`crowd ${index}`));
  honest.write(requestOf('honest'));
  await once(honest, 'data');
  const place = usersOf(service).indexOf('honest');
  t.ok(place > 0 && place < 30, `${place - 1} of the crowd came before it`);
  await Promise.all(answers);
  t.equal(new Set(usersOf(service)).size, 302, 'all are served in the end');
});

t.test('serves a request in its turn even if its connection ends behind it', async (t) => {
  const service = startService(t);
  const crowd = await connections(t, service, 100);
  const large = JSON.stringify({ ...track, userId: 'large', properties: { text: 'x'.repeat(30_000) } });
  const ended = crowd.map((socket) => once(socket.resume(), 'close'));
  for (const [index, socket] of crowd.entries()) {
    // As libraries that don't wait for an answer do.
    socket.end(index % 2 === 0 ? requestOf(`user ${index}`) : requestOf('', large));
  }
  await Promise.all(ended);
  const users = usersOf(service);
  t.equal(users.length, 100);
  t.equal(new Set(users).size, 51);
});

class Connection extends EventEmitter {
  readonly remoteAddress: string;
  destroyed = false;
  private paused = false;

  constructor(remoteAddress: string) {
    super();
    this.remoteAddress = remoteAddress;
  }

  isPaused(): boolean {
    return this.paused;
  }

  pause(): void {
    this.paused = true;
  }

  resume(): void {
    this.paused = false;
    this.emit('resume');
  }

  destroy(): void {
    this.destroyed = true;
  }
}

interface Request {
  readonly socket: Connection;
  destroyed: boolean;
  destroy(): void;
}

/** A server that no socket leads to. */
function doorway(isKnown: (address: string) => boolean) {
  const served: Request[] = [];
  const sockets: Connection[] = [];
  const server = new EventEmitter();
  server.on('request', (request: Request) => served.push(request));
  new Arrivals(server as unknown as Server, {
    sockets: sockets as unknown as Socket[],
    isKnown: ({ remoteAddress = '' }) => isKnown(remoteAddress),
  });
  const join = (remoteAddress: string): Connection => {
    const connection = new Connection(remoteAddress);
    if (!isKnown(remoteAddress)) sockets.push(connection);
    server.emit('connection', connection);
    return connection;
  };
  const come = (remoteAddress: string, socket = join(remoteAddress)): Request => {
    const request: Request = {
      socket,
      destroyed: false,
      destroy() {
        this.destroyed = true;
      },
    };
    server.emit('request', request, {});
    return request;
  };
  const paused = () => sockets.filter((socket) => socket.isPaused()).length;
  return { served, paused, join, come };
}

t.test('serves a few newcomers in each turn, by address in turn, and reads none that wait', async (t) => {
  const { served, paused, come } = doorway(() => false);
  for (let n = 0; n < 200; n += 1) come('10.0.0.1');
  t.ok(served.length > 0 && served.length < 10, `${served.length} at once`);
  const other = come('10.0.0.2');
  await turn();
  await turn();
  t.equal(paused(), 201 - served.length);
  t.ok(served.includes(other), 'another address does not wait for the crowd');
  t.ok(served.length < 20, `${served.length} after one turn`);
  for (let turns = 0; turns < 250; turns += 1) await turn();
  t.equal(new Set(served).size, 201);
  t.equal(paused(), 0);
});

t.test('serves known connections before newcomers, but lets none wait for ever', async (t) => {
  const { served, come } = doorway((address) => address === 'known');
  for (let n = 0; n < 100; n += 1) come('new');
  const first = come('known');
  t.equal(served.at(-1), first);
  for (let n = 0; n < 1_000; n += 1) come('known');
  const newcomers = () => served.filter(({ socket }) => socket.remoteAddress === 'new').length;
  const before = newcomers();
  await turn();
  t.ok(newcomers() > before);
  t.ok(served.length < 300, `${served.length} after one turn`);
});

t.test('gives the turn of a closed connection to the next', async (t) => {
  const { served, come } = doorway(() => false);
  const waiting = Array.from({ length: 20 }, () => come('10.0.0.1')).filter((request) => !served.includes(request));
  const last = waiting.pop() as Request;
  for (const request of waiting) request.destroyed = true;
  await turn();
  t.ok(served.includes(last));
  t.notOk(served.some(({ destroyed }) => destroyed));
});

t.test('reads a few newcomers in each turn, by address in turn, after too much arrived in one', async (t) => {
  const { served, paused, join, come } = doorway((address) => address === 'known');
  const crowd = Array.from({ length: 200 }, () => join('10.0.0.1'));
  const other = join('10.0.0.2');
  const known = join('known');
  come('10.0.0.1', crowd[0]);
  t.equal(paused(), 0, 'one at a time keeps nobody waiting');
  come('10.0.0.1', crowd[1]);
  t.ok(paused() >= 199, `${paused()} are not read in this turn`);
  t.notOk(known.isPaused());
  await turn();
  t.notOk(other.isPaused());
  t.ok(paused() > 190, `${paused()} are not read in the next`);
  for (const connection of crowd.slice(100)) connection.destroyed = true;
  for (let turns = 0; turns < 100; turns += 1) await turn();
  t.notOk(crowd.slice(0, 100).some((connection) => connection.isPaused()));
  t.equal(served.length, 2);
});

t.test('lets a connection that pipelines requests delay only itself, and pauses it in the meantime', async (t) => {
  const { served, join, come } = doorway(() => false);
  const hasty = join('10.0.0.1');
  const sent = Array.from({ length: 16 }, () => come('10.0.0.1', hasty));
  t.ok(hasty.isPaused(), 'at once');
  const other = come('10.0.0.1');
  for (let turns = 0; turns < 4; turns += 1) await turn();
  t.ok(served.includes(other), 'another connection of the same address waits for one request of it, not for all');
  hasty.resume();
  t.ok(hasty.isPaused(), 'to read a body does not let it go on');
  for (let turns = 0; turns < 20; turns += 1) await turn();
  const inOrder = served.filter(({ socket }) => socket === hasty);
  t.equal(inOrder.length, 16);
  t.ok(
    inOrder.every((request, index) => request === sent[index]),
    'in order',
  );
  t.notOk(hasty.isPaused());
});

t.test(
  'pauses returning newcomers while hundreds of requests wait behind others, and all newcomers at thousands',
  async (t) => {
    const { join, come } = doorway(() => false);
    const comesAgain = join('10.0.0.2');
    come('10.0.0.2', comesAgain);
    await turn();
    come('10.0.0.2', comesAgain);
    await turn();
    const early = join('10.0.0.4');
    const crowd = Array.from({ length: 700 }, () => join('10.0.0.1'));
    for (const connection of crowd) for (let n = 0; n < 8; n += 1) come('10.0.0.1', connection);
    const late = join('10.0.0.3');
    for (let turns = 0; turns < 100; turns += 1) await turn();
    const paused = () => [comesAgain, early, late].map((connection) => connection.isPaused());
    t.same(paused(), [true, true, true]);
    for (let turns = 0; turns < 500; turns += 1) await turn();
    t.same(paused(), [true, false, false], 'but as soon as they are few');
    for (let turns = 0; turns < 6_000; turns += 1) await turn();
    t.same(paused(), [false, false, false]);
  },
);

t.test('cuts a connection whose first requests show no write key if many wait behind them', async (t) => {
  let isBodyRead = false;
  const { served, join, come } = doorway((address) => address === 'honest' && isBodyRead);
  const sent = ['junk', 'honest'].map((address) => {
    const connection = join(address);
    return Array.from({ length: 100 }, () => come(address, connection));
  });
  for (let turns = 0; turns < 4; turns += 1) await turn();
  isBodyRead = true;
  for (let turns = 0; turns < 200; turns += 1) await turn();
  const [junk = [], honest = []] = sent;
  t.same(
    sent.map(([request]) => request?.socket.destroyed),
    [true, false],
  );
  const taken = junk.filter((request) => served.includes(request)).length;
  t.ok(taken > 1 && taken < 16, `${taken} were served`);
  t.ok(junk.every((request) => request.destroyed || served.includes(request)));
  t.ok(honest.every((request) => served.includes(request)));
});

t.test('reads newcomers again a little later after thousands of requests were cut', async (t) => {
  const { join, come } = doorway(() => false);
  const junk = join('10.0.0.1');
  for (let n = 0; n < 4_400; n += 1) come('10.0.0.1', junk);
  for (let turns = 0; turns < 20; turns += 1) await turn();
  t.ok(junk.destroyed);
  const late = join('10.0.0.2');
  for (let turns = 0; turns < 20; turns += 1) await turn();
  t.ok(late.isPaused(), 'who reads junk all the time serves nobody else');
  for (let turns = 0; turns < 2_000; turns += 1) await turn();
  t.notOk(late.isPaused());
  t.notOk(join('10.0.0.3').isPaused());
});

t.test('reads and serves newcomers before those that return without a key', async (t) => {
  const { served, join, come } = doorway(() => false);
  const crowd = Array.from({ length: 100 }, () => join('10.0.0.1'));
  for (let round = 0; round < 2; round += 1) {
    for (const connection of crowd) come('10.0.0.1', connection);
    for (let turns = 0; turns < 150; turns += 1) await turn();
  }
  t.equal(served.length, 200);
  for (const connection of crowd) for (let n = 0; n < 10; n += 1) come('10.0.0.1', connection);
  const late = join('10.0.0.1');
  t.ok(late.isPaused());
  for (let turns = 0; turns < 4; turns += 1) await turn();
  t.notOk(late.isPaused());
  const request = come('10.0.0.1', late);
  for (let turns = 0; turns < 4; turns += 1) await turn();
  t.ok(served.includes(request));
  for (let turns = 0; turns < 1_000; turns += 1) await turn();
  t.equal(new Set(served).size, 1_201, 'all are served in the end');
});

t.test('does not read a resumed connection that is paused before it goes on', (t) => {
  const { join } = doorway(() => false);
  const connection = join('10.0.0.1');
  let stops = 0;
  connection.on('pause', () => {
    stops += 1;
  });
  connection.emit('resume');
  t.equal(stops, 0);
  connection.pause();
  connection.emit('resume');
  t.equal(stops, 1, 'Node would have read it');
  t.end();
});

t.test('reads newcomers while hundreds of requests of known connections wait behind others', async (t) => {
  const { join, come } = doorway((address) => address === 'known');
  const early = join('10.0.0.2');
  const hasty = join('known');
  for (let n = 0; n < 4_000; n += 1) come('known', hasty);
  come('10.0.0.1');
  come('10.0.0.1');
  t.ok(early.isPaused());
  await turn();
  await turn();
  t.notOk(early.isPaused());
  t.notOk(join('10.0.0.3').isPaused());
});

t.test('cuts the connection with most waiting requests if thousands wait behind others', async (t) => {
  const { served, join, come } = doorway((address) => address === 'known');
  const [modest, greedy] = [join('known'), join('known')];
  for (let n = 0; n < 200; n += 1) come('known', modest);
  const before = served.length;
  const sent = Array.from({ length: 17_000 }, () => come('known', greedy));
  t.same([modest.destroyed, greedy.destroyed], [false, true]);
  t.ok(sent.every((request) => request.destroyed || served.includes(request)));
  for (let turns = 0; turns < 10; turns += 1) await turn();
  t.equal(served.length - before, 200 - before, 'what came of it is forgotten');
  const next = come('known', modest);
  await turn();
  t.ok(served.includes(next));
});

t.test('does not pause a resumed newcomer before it was read', async (t) => {
  const { join, come } = doorway(() => false);
  const crowd = Array.from({ length: 40 }, () => join('10.0.0.1'));
  const other = join('10.0.0.2');
  come('10.0.0.1');
  come('10.0.0.1');
  await turn();
  t.notOk(other.isPaused(), 'it is its turn');
  // Of two that were let go on, the other's data is looked at first.
  const first = crowd.find((connection) => !connection.isPaused());
  come('10.0.0.1', first);
  come('10.0.0.1');
  t.notOk(other.isPaused());
});

for (const place of ['head', 'body']) {
  t.test(
    `requests that come at once on a new connection, with the key in the ${place}, are all taken, in order, though it ends behind them`,
    async (t) => {
      const service = startService(t);
      const [socket] = (await connections(t, service, 1)) as [Socket];
      const users = Array.from({ length: 1_000 }, (_, index) => `user ${index}`);
      const closed = once(socket.resume(), 'close');
      const body = (userId: string) => JSON.stringify({ ...track, userId, writeKey: 'WK_shop' });
      const requests = users.map((userId) =>
        place === 'head' ? requestOf(userId) : requestOf(userId, body(userId)).replace(/authorization: .*\r\n/, ''),
      );
      socket.end(requests.join(''));
      await closed;
      t.same(usersOf(service), users);
    },
  );
}
