import nock from 'nock';
import t from 'tap';
import { post } from '../../src/deliver/exchange.ts';
import { createAgent } from '../../src/deliver/http/agent.ts';
import { systemClock } from '../../src/kernel/clock.ts';

const agent = createAgent({ allow: [], ca: [], proxy: null });
t.before(() => nock.disableNetConnect());
t.afterEach(() => nock.cleanAll());
t.teardown(async () => {
  nock.restore();
  await agent.close();
});

const send = (origin = 'http://crm.example') =>
  post(agent, systemClock, {
    origin,
    path: '/hook',
    headers: ['content-type', 'application/json'],
    body: Buffer.from('{"a":1}'),
  });

const classes = [
  { outcome: 'success', statuses: [200, 201, 202, 204, 206, 226, 299] },
  { outcome: 'retry', statuses: [500, 501, 502, 503, 504, 507, 511, 599, 408, 425, 429] },
  { outcome: 'refused', statuses: [400, 401, 403, 404, 405, 409, 410, 411, 413, 415, 422, 451, 499] },
  { outcome: 'refused', statuses: [300, 301, 302, 303, 304, 307, 308] },
];
for (const { outcome, statuses } of classes) {
  for (const status of statuses) {
    t.test(`classifies status ${status} as ${outcome}`, async (t) => {
      const scope = nock('http://crm.example').post('/hook', { a: 1 }).reply(status, undefined, { location: '/else' });
      const exchange = await send();
      t.equal(exchange.outcome, outcome);
      t.equal(exchange.status, status);
      t.equal(exchange.error, outcome === 'success' ? null : `status_${status}`);
      t.ok(scope.isDone(), 'it was posted once, to the path given');
    });
  }
}

for (const code of ['ECONNREFUSED', 'ECONNRESET', 'EHOSTUNREACH', 'ENETUNREACH', 'ENOTFOUND', 'EAI_AGAIN', 'EPIPE']) {
  t.test(`retries the connection error ${code}`, async (t) => {
    nock('http://crm.example')
      .post('/hook')
      .replyWithError(Object.assign(new Error('failed'), { code }));
    const { outcome, error, status } = await send();
    t.same({ outcome, error, status }, { outcome: 'retry', error: code, status: null });
  });
}

const certificates = {
  DEPTH_ZERO_SELF_SIGNED_CERT: 'self_signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'self_signed',
  CERT_HAS_EXPIRED: 'expired',
  CERT_NOT_YET_VALID: 'not_yet_valid',
  ERR_TLS_CERT_ALTNAME_INVALID: 'wrong_host',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'unknown_ca',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'unknown_ca',
  CERT_REVOKED: 'revoked',
  ERR_SSL_EE_KEY_TOO_SMALL: 'weak_certificate',
};
for (const [code, cause] of Object.entries(certificates)) {
  t.test(`classifies the TLS error ${code} as untrusted: ${cause}`, async (t) => {
    nock('https://crm.example')
      .post('/hook')
      .replyWithError(Object.assign(new Error('untrusted'), { code }));
    const { outcome, error } = await send('https://crm.example');
    t.same({ outcome, error }, { outcome: 'tls_untrusted', error: cause });
  });
}

t.test('keeps the answers of failed endpoints, not of successful ones', async (t) => {
  nock('http://crm.example').post('/hook').reply(500, 'out of order');
  t.equal((await send()).response, 'out of order');
  nock('http://crm.example').post('/hook').reply(200, 'thank you');
  t.equal((await send()).response, null);
});

t.test('reads Retry-After from the answer', async (t) => {
  nock('http://crm.example').post('/hook').reply(503, '', { 'retry-after': '120' });
  t.equal((await send()).retryAfter, 120_000);
  const date = new Date(Date.now() - 3_600_000);
  const later = new Date(date.getTime() + 60_000);
  const headers = { date: date.toUTCString(), 'retry-after': later.toUTCString() };
  nock('http://crm.example').post('/hook').reply(503, '', headers);
  t.equal((await send()).retryAfter, 60_000, 'by the clock of the endpoint, which is an hour slow');
});
