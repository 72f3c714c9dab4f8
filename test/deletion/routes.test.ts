import Fastify from 'fastify';
import t, { type Test } from 'tap';
import { type RegulationRequest, type RegulationsOptions, regulations } from '../../src/deletion/routes.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import type { Regulation } from '../../src/store/port.ts';

function startRoutes(t: Test, options: Partial<RegulationsOptions> = {}) {
  const filed: RegulationRequest[] = [];
  const app = Fastify();
  app.register(regulations, {
    guard: async () => {},
    hasSource: (id) => id === 'shop',
    fileRegulation: async (request) => {
      filed.push(request);
      return `reg-${filed.length}`;
    },
    findRegulation: async () => null,
    ...options,
  });
  t.teardown(() => app.close());
  return { app, filed };
}

const request = { regulationType: 'DELETE_ONLY', subjectType: 'USER_ID', subjectIds: ['u1', 'u2', 'u1'] };

t.test('files a request for every source, or for one', async (t) => {
  const { app, filed } = startRoutes(t);
  const everywhere = await app.inject({ method: 'POST', url: '/regulations', payload: request });
  t.equal(everywhere.statusCode, 200);
  t.strictSame(everywhere.json(), { data: { regulateId: 'reg-1' } });
  const one = await app.inject({ method: 'POST', url: '/regulations/sources/shop', payload: request });
  t.strictSame(one.json(), { data: { regulateId: 'reg-2' } });
  t.strictSame(filed, [
    { type: 'DELETE_ONLY', sources: null, userIds: ['u1', 'u2'] },
    { type: 'DELETE_ONLY', sources: ['shop'], userIds: ['u1', 'u2'] },
  ]);
  const unknown = await app.inject({ method: 'POST', url: '/regulations/sources/nobody', payload: request });
  t.equal(unknown.statusCode, 404);
  t.match(unknown.json(), { code: 'not_found', message: /nobody/, error: String });
});

t.test('names the mistakes of a request', async (t) => {
  const { app, filed } = startRoutes(t);
  const ids = (count: number) => Array.from({ length: count }, (_, index) => `u${index}`);
  const bad: [payload: unknown, says: RegExp][] = [
    [{ ...request, regulationType: 'FORGET' }, /regulationType/],
    [{ ...request, subjectType: 'EMAIL' }, /subjectType/],
    [{ ...request, subjectIds: [] }, /^subjectIds: must have at least 1 item$/],
    [{ ...request, subjectIds: 'u1' }, /^subjectIds: must be of the type array$/],
    [{ ...request, subjectIds: [7] }, /subjectIds\.0/],
    [{ ...request, subjectIds: ['u', ''] }, /subjectIds\.1/],
    [{ ...request, subjectIds: ['a\0b'] }, /subjectIds\.0/],
    [{ ...request, subjectIds: ids(5_001) }, /^subjectIds: must have at most 5000 items$/],
    [[], /body/],
    ['null', /body/],
  ];
  for (const [payload, says] of bad) {
    const headers = { 'content-type': 'application/json' };
    const answer = await app.inject({ method: 'POST', url: '/regulations', payload: payload as object, headers });
    t.equal(answer.statusCode, 400);
    t.match(answer.json(), { code: 'invalid_request', message: says, error: says });
  }
  for (const [payload, type, status] of [
    ['{', 'application/json', 400],
    ['', 'application/json', 400],
    ['a=1', 'application/x-www-form-urlencoded', 415],
    ['{}', 'text/plain', 415],
  ] as const) {
    const answer = await app.inject({
      method: 'POST',
      url: '/regulations',
      payload,
      headers: { 'content-type': type },
    });
    t.equal(answer.statusCode, status);
    t.match(answer.json(), { code: String, message: String, error: String });
  }
  t.equal(filed.length, 0);
  const most = await app.inject({
    method: 'POST',
    url: '/regulations',
    payload: { ...request, subjectIds: ids(5_000) },
  });
  t.equal(most.statusCode, 200);
});

t.test('shows the outcome of a request, without the users', async (t) => {
  const regulation: Regulation = {
    ...{ id: 'r1', type: 'SUPPRESS_WITH_DELETE', status: 'FINISHED', sources: null },
    ...{
      userIds: ['secret-user', 'b'],
      subjects: 2,
      hashes: [],
      told: null,
      partial: false,
      createdAt: 0,
      finishedAt: 1_000,
    },
  };
  const { app } = startRoutes(t, { findRegulation: async (id) => (id === 'r1' ? regulation : null) });
  const answer = await app.inject({ method: 'GET', url: '/regulations/r1' });
  t.strictSame(answer.json(), {
    data: {
      regulation: {
        ...{ id: 'r1', regulationType: 'SUPPRESS_WITH_DELETE', overallStatus: 'FINISHED', sources: null, subjects: 2 },
        ...{ createdAt: '1970-01-01T00:00:00.000Z', finishedAt: '1970-01-01T00:00:01.000Z' },
      },
    },
  });
  t.equal((await app.inject({ method: 'GET', url: '/regulations/other' })).statusCode, 404);
});

t.test('asks the guard first, and reports a failing store', async (t) => {
  const guarded = startRoutes(t, {
    guard: async () => {
      throw new RollcallError('unauthorized', 'No.');
    },
  });
  for (const [method, url] of [
    ['POST', '/regulations'],
    ['POST', '/regulations/sources/shop'],
    ['GET', '/regulations/x'],
  ] as const) {
    t.equal((await guarded.app.inject({ method, url })).statusCode, 401);
  }
  const failing = startRoutes(t, {
    fileRegulation: async () => Promise.reject(new RollcallError('store_busy', 'Busy.')),
  });
  const answer = await failing.app.inject({ method: 'POST', url: '/regulations', payload: request });
  t.equal(answer.statusCode, 503);
  t.match(answer.headers['retry-after'], /^\d+$/);
});
