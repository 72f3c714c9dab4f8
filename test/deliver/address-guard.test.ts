import t from 'tap';
import { createAddressGuard } from '../../src/deliver/http/address-guard.ts';
import { Receiver } from './helpers/receiver.ts';
import { destination, Rig } from './helpers/rig.ts';

const refused: Record<string, readonly string[]> = {
  'this network': ['0.0.0.0', '0.1.2.3', '::'],
  loopback: ['127.0.0.1', '127.255.255.254', '::1'],
  private: ['10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.1.1', 'fc00::1', 'fd12:3456::1'],
  'shared (carrier-grade NAT)': ['100.64.0.1', '100.127.255.255'],
  'link-local, with the metadata of clouds': ['169.254.169.254', '169.254.0.1', 'fe80::1', 'fe80::1%eth0'],
  'metadata over IPv6': ['fd00:ec2::254', 'fd20:ce::254', 'fe80::a9fe:a9fe', 'fd00:c1::a9fe:a9fe', 'fd00:42::42'],
  'metadata and platforms of other clouds': [
    ...[
      '168.63.129.16',
      '::ffff:168.63.129.16',
      '64:ff9b::a83f:8110',
      '100.100.100.200',
      '169.254.170.2',
      '169.254.170.23',
    ],
    ...['169.254.42.42', '169.254.0.23', '192.0.0.192', '100.88.222.5', '198.18.0.1'],
  ],
  'special use': ['192.0.0.1', '192.0.0.170', '192.88.99.1', '198.18.0.1', '198.19.255.255'],
  documentation: ['192.0.2.1', '198.51.100.1', '203.0.113.1', '2001:db8::1', '3fff::1'],
  'multicast and broadcast': ['224.0.0.1', '239.255.255.255', '255.255.255.255', 'ff02::1'],
  reserved: ['240.0.0.1', '254.1.1.1', '4000::1', 'e000::1', '5f00::1', '100::1'],
  'site-local': ['fec0::1'],
  'IPv4-compatible': ['::127.0.0.1', '::7f00:1', '::808:808'],
  'IPv4-mapped': ['::ffff:127.0.0.1', '::ffff:7f00:1', '::ffff:10.0.0.1', '::ffff:169.254.169.254'],
  'IPv4-translated': ['::ffff:0:127.0.0.1', '::ffff:0:a00:1'],
  NAT64: ['64:ff9b::127.0.0.1', '64:ff9b::a9fe:a9fe', '64:ff9b:1::127.0.0.1', '64:ff9b:1:7f00:0:100:808:808'],
  '6to4': ['2002:7f00:1::', '2002:a00:1::1', '2002:a9fe:a9fe::'],
  Teredo: ['2001:0:4136:e378:8000:63bf:3fff:fdd2'],
  'no address at all': ['', 'localhost', '127.0.0.1:80', '1.2.3.4/32', '[::1]'],
};
for (const [range, addresses] of Object.entries(refused)) {
  t.test(`refuses by default: ${range}`, async (t) => {
    const guard = createAddressGuard([]);
    for (const address of addresses) t.notOk(guard(address), address);
  });
}

t.test('allows public addresses, plain and embedded in IPv6', async (t) => {
  const guard = createAddressGuard([]);
  for (const address of [
    '8.8.8.8',
    '1.1.1.1',
    '172.32.0.1',
    '100.128.0.1',
    '169.253.1.1',
    '11.0.0.1',
    '198.20.0.1',
    '168.63.129.17',
  ]) {
    t.ok(guard(address), address);
    t.ok(guard(`::ffff:${address}`), `::ffff:${address}`);
    t.ok(guard(`64:ff9b::${address}`), `64:ff9b::${address}`);
  }
  for (const address of ['2606:4700::1111', '2a00:1450:4001::1', '2002:808:808::1']) t.ok(guard(address), address);
});

t.test('allows the ranges of network.allow, in every form of an address, and no others', async (t) => {
  const guard = createAddressGuard(['10.1.0.0/16', 'fd00:aaaa::/32', '127.0.0.1/32']);
  for (const address of ['10.1.0.1', '10.1.255.255', '::ffff:10.1.2.3', '64:ff9b::10.1.2.3', 'fd00:aaaa::1']) {
    t.ok(guard(address), address);
  }
  t.ok(guard('127.0.0.1'));
  for (const address of ['10.2.0.1', '127.0.0.2', 'fd00:bbbb::1', '169.254.169.254', '::ffff:10.2.0.1']) {
    t.notOk(guard(address), address);
  }
});

const literals = {
  plain: '127.0.0.1',
  short: '127.1',
  decimal: '2130706433',
  hexadecimal: '0x7f000001',
  'hexadecimal in parts': '0x7f.0x0.0x0.0x1',
  octal: '0177.0.0.1',
  'with a final dot': '127.0.0.1.',
  'full-width digits': '１２７.０.０.１',
  'percent-encoded': '%31%32%37.0.0.1',
  unspecified: '0.0.0.0',
  'IPv6 loopback': '[::1]',
  'IPv4-mapped': '[::ffff:127.0.0.1]',
  'IPv4-mapped in hexadecimal': '[::ffff:7f00:1]',
};
for (const [form, host] of Object.entries(literals)) {
  t.test(`refuses a loopback address written ${form} without connecting`, async (t) => {
    const receiver = await Receiver.start(t);
    const { port } = new URL(receiver.url);
    const rig = await Rig.start(t, { destinations: [destination(`http://${host}:${port}/`)], network: { allow: [] } });
    await rig.send(1);
    await rig.settled(1);
    t.same(rig.outcomes, [['address_refused', 'address_refused']]);
    t.same(rig.verdicts, ['retry'], 'and holds it');
    t.equal(receiver.connections, 0);
    t.match(await rig.store.endpoints(), [{ refusal: { takenAt: null } }]);
  });
}

t.test('connects to a literal address in network.allow', async (t) => {
  const receiver = await Receiver.start(t);
  const { port } = new URL(receiver.url);
  const rig = await Rig.start(t, { destinations: [destination(`http://2130706433:${port}/hook`)] });
  await rig.send(1);
  await rig.settled(1);
  t.same(rig.verdicts, ['delivered']);
});

t.test('connects only to the allowed ones of mixed answers', async (t) => {
  const receiver = await Receiver.start(t);
  const { port } = new URL(receiver.url);
  // Were 127.0.0.2 connected to, the receiver on 127.0.0.1 would not be reached.
  const resolve = async () => [
    { address: '127.0.0.2', family: 4 },
    { address: '169.254.169.254', family: 4 },
    { address: '127.0.0.1', family: 4 },
  ];
  const rig = await Rig.start(t, {
    destinations: [destination(`http://mixed.example:${port}/`)],
    network: { resolve, allow: ['127.0.0.1/32'] },
  });
  await rig.send(1);
  await rig.settled(1);
  t.same(rig.verdicts, ['delivered']);
});

t.test('refuses a name that resolves to nothing allowed', async (t) => {
  const resolve = async () => [
    { address: '10.0.0.1', family: 4 },
    { address: '::1', family: 6 },
  ];
  const rig = await Rig.start(t, { destinations: [destination('http://inside.example/')], network: { resolve } });
  await rig.send(1);
  await rig.settled(1);
  t.same(rig.outcomes, [['address_refused', 'address_refused']]);
});

t.test('vets a name again on each connection', async (t) => {
  const receiver = await Receiver.start(t, (response) => void response.writeHead(200, { connection: 'close' }).end());
  const { port } = new URL(receiver.url);
  const answers = ['127.0.0.1', '127.0.0.9'];
  let lookups = 0;
  const resolve = async () => [{ address: answers[Math.min(lookups++, 1)] ?? '', family: 4 }];
  const rig = await Rig.start(t, {
    destinations: [destination(`http://rebound.example:${port}/`)],
    network: { resolve, allow: ['127.0.0.1/32'] },
  });
  await rig.send(1);
  await rig.settled(1);
  await rig.send(1);
  await rig.settled(2);
  t.same(rig.outcomes, [
    ['success', null],
    ['address_refused', 'address_refused'],
  ]);
  t.equal(lookups, 2, 'one lookup for one connection: what was vetted is what is connected to');
  t.equal(receiver.requests.length, 1);
});

t.test('retries a name that DNS does not know', async (t) => {
  const resolve = () => Promise.reject(Object.assign(new Error('unknown'), { code: 'ENOTFOUND' }));
  const rig = await Rig.start(t, { destinations: [destination('http://unknown.example/')], network: { resolve } });
  await rig.send(1);
  await rig.settled(1);
  t.same(rig.outcomes, [['retry', 'ENOTFOUND']]);
});

t.test('holds an endpoint while its name resolves to nothing allowed, and then sends everything', async (t) => {
  const receiver = await Receiver.start(t);
  let address = '10.0.0.1';
  const resolve = async () => [{ address, family: 4 }];
  const { port } = new URL(receiver.url);
  const rig = await Rig.start(t, {
    destinations: [destination(`http://moved.example:${port}/`)],
    network: { resolve },
  });
  await rig.send(60);
  await rig.passUntil(() => rig.outcomes.length >= 30);
  t.equal(receiver.connections, 0);
  address = '127.0.0.1';
  await rig.passUntil(() => rig.delivered() === 60);
  t.same(await rig.deadLetters(), []);
  t.same(await rig.store.endpoints(), []);
});
