import t, { type Test } from 'tap';
import { ManualClock } from '../helpers/clock.ts';
import { testDatabase } from '../helpers/database.ts';
import { Authority, type Pair } from './helpers/certificates.ts';
import { destination, message, Rig, type RigOptions } from './helpers/rig.ts';
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
  t.test(`refuses ${name} as ${cause} before sending any byte, and sends all once it is trusted`, async (t) => {
    const { rig, seen, server } = await start(t, pair());
    await rig.send(60);
    await rig.passUntil(() => rig.outcomes.length >= 30);
    t.same(rig.outcomes, Array(rig.outcomes.length).fill(['tls_untrusted', cause]));
    t.match(seen, { requests: 0, bytes: 0 });
    t.match(await rig.store.endpoints(), [{ refusal: { takenAt: null } }]);
    server.setSecureContext(good);
    await rig.passUntil(() => rig.delivered() === 60);
    t.equal(seen.requests, 60);
    t.same(await rig.deadLetters(), []);
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

const HOUR = 3_600_000;

t.test(
  'keeps deletion notices for as long as the certificate is not trusted, and other messages for four hours',
  async (t) => {
    const database = await testDatabase(t, new ManualClock());
    const { server, port, seen } = await secureEndpoint(t, authority.issue('DNS:good.example', past));
    const network = { ca: [authority.cert], resolve: async () => [{ address: '127.0.0.1', family: 4 }] };
    const options = { destinations: [destination(`https://good.example:${port}/hook`)], network, database };
    const rig = await Rig.start(t, options);
    const notices = Array.from({ length: 30 }, () => message({ type: 'delete' }));
    await rig.accept('shop', notices);
    await rig.accept('shop', [message({ value: 1 })]);
    await rig.passUntil(() => rig.verdicts.includes('retry'));
    await rig.passQuickly(6 * HOUR);
    await rig.stopInTime();
    const later = await Rig.start(t, options);
    await later.passQuickly(6 * HOUR);
    t.same(
      (await later.deadLetters()).map(({ type, reason }) => [type, reason]),
      [['track', 'expired']],
    );
    server.setSecureContext(good);
    await later.passUntil(() => later.delivered() === notices.length);
    t.equal(seen.requests, notices.length);
  },
);

t.test('holds the endpoint in all processes that share it, and opens it in all', async (t) => {
  const database = await testDatabase(t, new ManualClock());
  const { server, port, seen } = await secureEndpoint(t, authority.issue('DNS:good.example', past));
  const network = { ca: [authority.cert], resolve: async () => [{ address: '127.0.0.1', family: 4 }] };
  const options = { destinations: [destination(`https://good.example:${port}/hook`)], network, database };
  const rigs = [await Rig.start(t, options), await Rig.start(t, options)];
  for (const rig of rigs) await rig.pass(10_000);
  for (const rig of rigs) await rig.send(50);
  const [first, second] = rigs;
  if (!first || !second) throw new Error('two were started');
  await first.pass(120_000);
  const tried = first.outcomes.length + second.outcomes.length;
  t.ok(tried < 100, `${tried} attempts in two minutes`);
  server.setSecureContext(good);
  await first.passUntil(() => first.delivered() + second.delivered() === 100);
  t.equal(seen.requests, 100);
  t.same(await first.deadLetters(), []);
});
