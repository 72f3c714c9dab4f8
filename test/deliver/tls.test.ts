import t, { type Test } from 'tap';
import { Authority, type Pair } from './helpers/certificates.ts';
import { destination, Rig, type RigOptions } from './helpers/rig.ts';
import { noticesChange, secureEndpoint } from './helpers/secure-endpoint.ts';

const authority = new Authority();
const stranger = new Authority();
t.teardown(() => {
  authority.remove();
  stranger.remove();
});
const good = authority.issue('DNS:good.example');
const past = { from: '20200101000000Z', until: '20200201000000Z' };
const future = { from: '20900101000000Z', until: '20910101000000Z' };

/** A server with this certificate, and a destination at `https://good.example` that leads to it. */
async function start(t: Test, pair: Pair, network: RigOptions['network'] = { ca: [authority.cert] }) {
  const { server, port, seen } = await secureEndpoint(t, pair);
  const resolve = async () => [{ address: '127.0.0.1', family: 4 }];
  const rig = await Rig.start(t, {
    destinations: [destination(`https://good.example:${port}/hook`)],
    network: { resolve, ...network },
  });
  return { rig, seen, server };
}

const untrusted: Record<string, { pair: () => Pair; cause: string }> = {
  'a self-signed certificate': { pair: () => authority.selfSigned('DNS:good.example'), cause: 'self_signed' },
  'an expired certificate': { pair: () => authority.issue('DNS:good.example', past), cause: 'expired' },
  'a certificate of the future': { pair: () => authority.issue('DNS:good.example', future), cause: 'not_yet_valid' },
  'a certificate for another host': { pair: () => authority.issue('DNS:other.example'), cause: 'wrong_host' },
  'a certificate of an unknown authority': { pair: () => stranger.issue('DNS:good.example'), cause: 'unknown_ca' },
  'a chain that ends in an unknown root': {
    pair: () => {
      const { key, cert } = stranger.issue('DNS:good.example');
      return { key, cert: cert + stranger.cert };
    },
    cause: 'self_signed',
  },
};

for (const [name, { pair, cause }] of Object.entries(untrusted)) {
  t.test(`refuses ${name} as ${cause} before sending any byte, every time`, async (t) => {
    const { rig, seen } = await start(t, pair());
    for (let round = 1; round <= 3; round += 1) {
      await rig.send(1);
      await rig.settled(round);
    }
    t.same(rig.outcomes, Array(3).fill(['tls_untrusted', cause]));
    t.same(rig.verdicts, ['dead', 'dead', 'dead'], 'and not retried');
    t.match(seen, { requests: 0, bytes: 0 });
    await rig.calm();
    const reasons = (await rig.deadLetters()).map(({ reason }) => reason);
    t.same(reasons, Array(3).fill('tls_untrusted'));
  });
}

t.test('trusts an authority of network.ca', async (t) => {
  const { rig, seen } = await start(t, good);
  await rig.send(3);
  await rig.settled(3);
  t.same(rig.verdicts, ['delivered', 'delivered', 'delivered']);
  t.equal(seen.requests, 3);
});

t.test('treats the same certificate as unknown without it', async (t) => {
  const { rig } = await start(t, good, { ca: [] });
  await rig.send(1);
  await rig.settled(1);
  t.same(rig.outcomes, [['tls_untrusted', 'unknown_ca']]);
});

t.test('checks the certificate on every connection, and notices a bad new one', async (t) => {
  const { rig, seen, server } = await start(t, good);
  await noticesChange(t, rig, { server, seen }, authority.issue('DNS:other.example'));
});
