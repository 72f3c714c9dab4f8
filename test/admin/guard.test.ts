import Fastify, { type FastifyInstance } from 'fastify';
import t, { type Test } from 'tap';
import { Gate } from '../../src/admin/guard.ts';
import { BrowserSessions } from '../../src/admin/session.ts';
import { SignInLimit } from '../../src/admin/sign-in-limit.ts';
import { RIGHTS } from '../../src/config/config.ts';
import { answerError } from '../../src/http/errors.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { openStore } from '../../src/store/open.ts';
import { NO_EVENTS } from '../../src/store/port.ts';

/** A route behind the gate, with this token or none at the time of a request. */
async function guarded(t: Test, token: () => string | null): Promise<FastifyInstance> {
  const store = await openStore({ url: 'sqlite::memory:', maxQueued: 1 }, systemClock, NO_EVENTS);
  const tokens = () =>
    [token()].flatMap((each) => (each === null ? [] : [{ name: 'admin', token: each, may: RIGHTS }]));
  const gate = new Gate({
    tokens,
    session: new BrowserSessions(systemClock, store),
    limit: new SignInLimit(systemClock),
  });
  const app = Fastify();
  app.setErrorHandler(answerError);
  app.addHook('onRequest', gate.guard('delete'));
  app.all('/admin', async () => ({ in: true }));
  t.teardown(async () => {
    await app.close();
    await store.close();
  });
  return app;
}

const local = { method: 'GET', url: '/admin', headers: { host: 'localhost:8080' } } as const;

t.test('admits only requests that bear the token, from any address', async (t) => {
  const app = await guarded(t, () => 'correct-horse');
  const far = {
    ...local,
    remoteAddress: '203.0.113.7',
    headers: { host: 'rollcall.example', 'x-forwarded-for': '1.2.3.4' },
  };
  const bad = [
    'Bearer correct-hors',
    'Bearer correct-horse2',
    'Bearer',
    'correct-horse',
    'Basic Y29ycmVjdC1ob3JzZTo=',
    '',
  ];
  for (const place of [far, { ...local, remoteAddress: '127.0.0.1' }, { ...local, remoteAddress: '::1' }]) {
    const send = (authorization?: string) =>
      app.inject({ ...place, headers: { ...place.headers, ...(authorization !== undefined && { authorization }) } });
    for (const good of ['Bearer correct-horse', 'bearer correct-horse'])
      t.equal((await send(good)).statusCode, 200, good);
    for (const authorization of [undefined, ...bad]) {
      const answer = await send(authorization);
      t.equal(answer.statusCode, 401, String(authorization));
      t.match(answer.headers['www-authenticate'], /^Bearer/);
      t.match(answer.json(), { code: 'unauthorized', message: String, error: String });
    }
  }
});

t.test('applies a changed token at once, and admits nobody without one', async (t) => {
  let token: string | null = 'one';
  const app = await guarded(t, () => token);
  const headers = { ...local.headers, authorization: 'Bearer one' };
  t.equal((await app.inject({ ...local, headers })).statusCode, 200);
  token = 'two';
  t.equal((await app.inject({ ...local, headers })).statusCode, 401);
  token = null;
  for (const place of [local, { ...local, headers }]) {
    const answer = await app.inject(place);
    t.equal(answer.statusCode, 503);
    t.match(answer.json(), { code: 'no_admin_token' });
  }
});

t.test('counts guesses by network, and keeps one shut while others fail', (t) => {
  let now = 0;
  const limit = new SignInLimit({ monotonic: () => now });
  const shut = (address: string) => {
    try {
      limit.check(address);
      return false;
    } catch (error) {
      t.match(error, { code: 'rate_limited' });
      return true;
    }
  };
  const guess = (address: string, times: number) => {
    for (let time = 0; time < times; time += 1) limit.failed(address);
  };
  for (let host = 1; host <= 10; host += 1) guess(`2001:db8:0:1::${host}`, 1);
  t.ok(shut('2001:db8:0:1:ffff::1'), 'an address of the same /64 that has not guessed');
  t.notOk(shut('2001:db8:0:2::1'));
  guess('::ffff:192.0.2.1', 10);
  t.ok(shut('192.0.2.1'));
  t.notOk(shut('192.0.2.2'));
  const network = (n: number) => `2001:db8:${(n >> 16).toString(16)}:${(n & 0xffff).toString(16)}::1`;
  for (let n = 0x1_0000; n < 0x1_0000 + 20_000; n += 1) guess(network(n), 1);
  t.ok(shut('192.0.2.1'), 'after guesses from 20,000 other networks');
  for (let n = 0x2_0000; n < 0x2_0000 + 10_000; n += 1) guess(network(n), 10);
  t.ok(shut('192.0.2.1'), 'after as many shut ones as are kept');
  t.ok(shut('198.51.100.1'), 'newcomers wait too');
  now += 60_000;
  for (const address of ['192.0.2.1', '198.51.100.1', '2001:db8:0:1::1']) t.notOk(shut(address), address);
  t.end();
});
