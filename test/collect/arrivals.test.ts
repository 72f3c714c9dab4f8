import { EventEmitter } from 'node:events';
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { Arrivals } from '../../src/collect/arrivals.ts';

class Caller extends EventEmitter {
  readonly remoteAddress: string;
  destroyed = false;
  resumed = false;

  constructor(remoteAddress: string) {
    super();
    this.remoteAddress = remoteAddress;
  }

  resume(): void {
    this.resumed = true;
  }

  destroy(): void {
    this.destroyed = true;
  }
}

function doorway() {
  const served: Caller[] = [];
  const server = Object.assign(new EventEmitter(), { listening: true, pauseOnConnect: false });
  server.on('connection', (socket: Caller) => {
    served.push(socket);
    socket.on('error', () => {});
  });
  const arrived: Socket[] = [];
  new Arrivals(server as unknown as Server, (socket) => arrived.push(socket));
  const come = (address: string) => {
    const caller = new Caller(address);
    server.emit('connection', caller);
    return caller;
  };
  return { server, served, arrived, come };
}

t.test(
  'of hundreds that come at once a few are let in before others have their turn, and each is in the end',
  async (t) => {
    const { server, served, arrived, come } = doorway();
    t.equal(server.pauseOnConnect, true, 'nothing is read of who waits');
    const crowd = Array.from({ length: 200 }, () => come('10.0.0.1'));
    t.equal(arrived.length, 200, 'each counts from its arrival');
    t.equal(served.length, 0);
    await turn();
    t.ok(served.length > 0 && served.length < 10, `${served.length} after one turn`);
    const other = come('10.0.0.2');
    await turn();
    t.ok(served.includes(other), 'another address does not wait for the crowd');
    for (let turns = 0; turns < 100; turns += 1) await turn();
    t.equal(new Set(served).size, 201);
    t.ok(crowd.every((caller) => caller.resumed));
  },
);

t.test('who leaves before its turn takes nobody’s, and an error of one that waits harms nobody', async (t) => {
  const { served, come } = doorway();
  const [gone, broken, last] = [come('10.0.0.1'), come('10.0.0.1'), come('10.0.0.1')];
  gone.destroyed = true;
  broken.emit('error', new Error('reset'));
  await turn();
  t.strictSame(served, [broken, last]);
});

t.test('who comes as the server closes is cut: nobody would end it', async (t) => {
  const { server, served, come } = doorway();
  const caller = come('10.0.0.1');
  server.listening = false;
  await turn();
  t.equal(served.length, 0);
  t.equal(caller.destroyed, true);
});
