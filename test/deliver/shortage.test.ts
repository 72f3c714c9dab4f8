import t from 'tap';
import { isShortage } from '../../src/deliver/classify.ts';
import { silentLogger } from '../../src/kernel/log.ts';
import { Receiver } from './helpers/receiver.ts';
import { destination, Rig } from './helpers/rig.ts';

const MESSAGES = 40;

/** A network that lacks `code` for each new connection until it is given. */
function lacking(code: string) {
  const network = {
    isShort: true,
    asked: 0,
    async resolve() {
      network.asked += 1;
      if (network.isShort) throw Object.assign(new Error(code), { code });
      return [{ address: '127.0.0.1', family: 4 }];
    },
  };
  return network;
}

for (const code of ['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EAGAIN', 'EADDRNOTAVAIL']) {
  for (const batch of [null, { size: 10, wait: 0 }]) {
    t.test(`blames no endpoint for ${code}${batch ? ', with batches' : ''}, and delivers afterwards`, async (t) => {
      const network = lacking(code);
      const receiver = await Receiver.start(t);
      const { port } = new URL(receiver.url);
      const warnings: unknown[] = [];
      const log = { ...silentLogger, warn: (...line: unknown[]) => void warnings.push(line) };
      const [endpoint] = destination(`http://crm.example:${port}/`).endpoints;
      if (!endpoint) throw new Error('no endpoint');
      const endpoints = [{ ...endpoint, ...(batch ? { batch } : {}) }];
      const rig = await Rig.start(t, { destinations: [destination([], { endpoints })], network, log });
      await rig.send(MESSAGES);
      await rig.settled(1);
      t.ok(network.asked <= 16, 'a pause after the first failures');
      await rig.pass(20_000);
      t.match(rig.outcomes[0], ['retry', code]);
      t.equal(new Set(rig.verdicts).has('dead'), false);
      t.same(
        (await rig.store.endpoints()).filter(({ deadSince }) => deadSince !== null),
        [],
      );
      t.match(warnings, [[{ stage: 'deliver', error: code }, /too few file descriptors, ports or memory/]], 'once');
      network.isShort = false;
      while ((await rig.store.backlog()).some(({ pending }) => pending > 0)) await rig.pass(5_000);
      t.equal(rig.verdicts.filter((verdict) => verdict === 'delivered').length, MESSAGES);
    });
  }
}

t.test('tells a shortage from failures of endpoints and of the proxy', async (t) => {
  t.ok(isShortage({ status: null, error: 'proxy_EMFILE' }));
  for (const error of ['ECONNREFUSED', 'ENOTFOUND', 'timeout', 'EMFILES', null])
    t.notOk(isShortage({ status: null, error }));
  t.notOk(isShortage({ status: 503, error: 'EMFILE' }));
});
