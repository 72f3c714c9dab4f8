import { createServer as createHttpServer, type IncomingMessage, request, type Server } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import t, { type Test } from 'tap';
import { freePort } from '../helpers/free-port.ts';
import { Authority, type Pair } from './helpers/certificates.ts';
import { Receiver } from './helpers/receiver.ts';
import { destination, Rig } from './helpers/rig.ts';
import { noticesChange, secureEndpoint } from './helpers/secure-endpoint.ts';

const authority = new Authority();
t.teardown(() => authority.remove());
const good = authority.issue('DNS:good.example');

/** A proxy that knows every name as 127.0.0.1, and keeps who asked it for what. */
class HttpProxy {
  readonly asked: string[] = [];
  readonly authorisations = new Set<string | undefined>();
  /** Of a tunnel: a status other than 200 refuses it, null leaves it without an answer. */
  status: number | null = 200;
  readonly url: string;
  private readonly sockets = new Set<Duplex>();

  private constructor(server: Server, scheme: string) {
    this.url = `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on('connection', (socket: Socket) => this.sockets.add(socket));
    server.on('connect', (asked: IncomingMessage, socket: Duplex) => this.tunnel(asked, socket));
    server.on('request', (asked, response) => {
      this.note(asked);
      const { port, pathname } = new URL(asked.url ?? '');
      const { 'proxy-authorization': _, ...headers } = asked.headers;
      const onward = request({ host: '127.0.0.1', port, path: pathname, method: asked.method, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 500);
        answer.pipe(response);
      });
      asked.pipe(onward);
    });
  }

  static async start(t: Test, pair?: Pair): Promise<HttpProxy> {
    const server = pair ? createHttpsServer(pair) : createHttpServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const proxy = new HttpProxy(server, pair ? 'https' : 'http');
    t.teardown(() => {
      for (const socket of proxy.sockets) socket.destroy();
      server.close();
    });
    return proxy;
  }

  private tunnel(asked: IncomingMessage, socket: Duplex): void {
    this.note(asked);
    socket.on('error', () => {});
    if (this.status === null) return;
    if (this.status !== 200) {
      socket.end(`HTTP/1.1 ${this.status} No\r\n\r\n`);
      return;
    }
    const onward = connect(Number(asked.url?.split(':')[1]), '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      onward.pipe(socket).pipe(onward);
    });
    this.sockets.add(onward);
    onward.on('error', () => socket.destroy()).on('close', () => socket.destroy());
    socket.on('close', () => onward.destroy());
  }

  private note({ url, headers }: IncomingMessage): void {
    this.asked.push(url ?? '');
    this.authorisations.add(headers['proxy-authorization']);
  }
}

/** An endpoint at `https://good.example`, which only the proxy can find. */
async function hiddenEndpoint(t: Test, pair: Pair) {
  const { port, ...endpoint } = await secureEndpoint(t, pair);
  const host = `good.example:${port}`;
  return { ...endpoint, host, url: `https://${host}/hook` };
}

const startRig = (t: Test, proxy: string, url: string, allow: readonly string[] = []) =>
  Rig.start(t, { destinations: [destination(url)], network: { allow, ca: [authority.cert], proxy } });

t.test('posts to an https endpoint through a tunnel, which is kept and reused', async (t) => {
  const proxy = await HttpProxy.start(t);
  const { seen, host, url } = await hiddenEndpoint(t, good);
  const rig = await startRig(t, proxy.url, url);
  for (let round = 1; round <= 5; round += 1) {
    await rig.send(1);
    await rig.settled(round);
  }
  t.same(rig.verdicts, Array(5).fill('delivered'));
  t.equal(seen.requests, 5);
  t.same(proxy.asked, [host], 'by name: the proxy looks it up');
});

t.test('lets the proxy forward requests to an endpoint without https', async (t) => {
  const proxy = await HttpProxy.start(t);
  const receiver = await Receiver.start(t);
  const { port } = new URL(receiver.url);
  const rig = await startRig(t, proxy.url, `http://plain.example:${port}/hook`);
  await rig.send(1);
  await rig.settled(1);
  t.same(rig.verdicts, ['delivered']);
  t.same(proxy.asked, [`http://plain.example:${port}/hook`]);
  t.match(receiver.requests, [{ method: 'POST', path: '/hook', headers: { 'content-type': 'application/json' } }]);
});

t.test('sends name and password of the proxy to the proxy only', async (t) => {
  const proxy = await HttpProxy.start(t);
  const { seen, url } = await hiddenEndpoint(t, good);
  const rig = await startRig(t, proxy.url.replace('://', '://me:s3cret@'), url);
  await rig.send(1);
  await rig.settled(1);
  t.same(rig.verdicts, ['delivered']);
  t.same([...proxy.authorisations], [`Basic ${btoa('me:s3cret')}`]);
  t.equal(seen.authorised, 0);
});

for (const [name, pair, cause] of [
  ['self-signed', () => authority.selfSigned('DNS:good.example'), 'self_signed'],
  ['for another host', () => authority.issue('DNS:other.example'), 'wrong_host'],
] as const) {
  t.test(`refuses a certificate that is ${name} before sending any byte, in a tunnel too`, async (t) => {
    const proxy = await HttpProxy.start(t);
    const { seen, url } = await hiddenEndpoint(t, pair());
    const rig = await startRig(t, proxy.url, url);
    await rig.send(1);
    await rig.settled(1);
    t.same(rig.outcomes, [['tls_untrusted', cause]]);
    t.match(seen, { requests: 0, bytes: 0 });
  });
}

t.test('checks the certificate in every new tunnel', async (t) => {
  const proxy = await HttpProxy.start(t);
  const { seen, url, server } = await hiddenEndpoint(t, good);
  const rig = await startRig(t, proxy.url, url);
  await noticesChange(t, rig, { server, seen }, authority.issue('DNS:other.example'));
});

for (const host of [
  '127.0.0.1',
  '2130706433',
  '[::1]',
  '[::ffff:10.0.0.1]',
  '169.254.169.254',
  'localhost',
  'a.localhost.',
  'localhost..',
  'LOCALHOST',
  'localhost.localdomain',
  'localhost4',
  'localhost4.localdomain4',
  'localhost6',
  'localhost6.localdomain6',
  'ip6-localhost',
  'ip6-loopback',
  'loopback',
  '168.63.129.16',
]) {
  t.test(`does not ask the proxy for ${host}, which network.allow does not name`, async (t) => {
    const proxy = await HttpProxy.start(t);
    const rig = await startRig(t, proxy.url, `http://${host}/`);
    await rig.send(1);
    await rig.settled(1);
    t.same(rig.outcomes, [['address_refused', 'address_refused']]);
    t.same(proxy.asked, []);
  });
}

t.test('asks it for an address that network.allow names', async (t) => {
  const proxy = await HttpProxy.start(t);
  const receiver = await Receiver.start(t);
  const rig = await startRig(t, proxy.url, receiver.url, ['127.0.0.0/8']);
  await rig.send(1);
  await rig.settled(1);
  t.same(rig.verdicts, ['delivered']);
  t.same(proxy.asked, [receiver.url]);
});

t.test('retries if the proxy refuses or cannot be reached, and names it as the cause', async (t) => {
  const proxy = await HttpProxy.start(t);
  proxy.status = 403;
  const { seen, url } = await hiddenEndpoint(t, good);
  const refused = await startRig(t, proxy.url, url);
  await refused.send(1);
  await refused.settled(1);
  t.same(refused.outcomes, [['retry', 'proxy_status_403']]);

  const port = await freePort();
  for (const endpoint of [url, 'http://plain.example/']) {
    const unreachable = await startRig(t, `http://127.0.0.1:${port}`, endpoint);
    await unreachable.send(1);
    await unreachable.settled(1);
    t.same(unreachable.outcomes, [['retry', 'proxy_ECONNREFUSED']]);
  }
  t.equal(seen.requests, 0);
});

t.test('makes no dead letters for the certificate of the proxy', async (t) => {
  const { url } = await hiddenEndpoint(t, good);
  for (const subject of ['IP:127.0.0.1', 'DNS:other.example']) {
    const proxy = await HttpProxy.start(t, authority.selfSigned(subject));
    for (const endpoint of [url, 'http://plain.example/']) {
      const rig = await startRig(t, proxy.url, endpoint);
      await rig.send(1);
      await rig.settled(1);
      t.match(rig.outcomes, [['retry', /^proxy_/]]);
    }
    t.same(proxy.asked, []);
  }
});

t.test('uses an https proxy with a certificate of network.ca', async (t) => {
  const proxy = await HttpProxy.start(t, authority.issue('IP:127.0.0.1'));
  const { url } = await hiddenEndpoint(t, good);
  const rig = await startRig(t, proxy.url, url);
  await rig.send(1);
  await rig.settled(1);
  t.same(rig.verdicts, ['delivered']);
});

t.test('times out a tunnel that is never granted', async (t) => {
  const proxy = await HttpProxy.start(t);
  proxy.status = null;
  const { seen, url } = await hiddenEndpoint(t, good);
  const rig = await startRig(t, proxy.url, url);
  await rig.send(1);
  while (proxy.asked.length === 0) await new Promise((resolve) => setImmediate(resolve));
  rig.clock.advance(4_999);
  await rig.calm();
  t.same(rig.verdicts, []);
  rig.clock.advance(1);
  await rig.settled(1);
  t.same(rig.outcomes, [['retry', 'timeout']]);
  t.equal(seen.requests, 0);
});
