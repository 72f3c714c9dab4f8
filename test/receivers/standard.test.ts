import t from 'tap';
import { createReceiver, type StandaloneOptions, signStandard } from '../../receivers/index.ts';
import { signed, webhook } from '../../receivers/testing.ts';
import { manualClock } from './helpers/clock.ts';
import { silent } from './helpers/hosts.ts';
import { secret } from './helpers/samples.ts';

type Signed = Parameters<typeof signed>[2];

function start(options: Partial<StandaloneOptions>) {
  const hooks = createReceiver({ secret, on: {}, log: silent, ...options } as StandaloneOptions);
  const send = async (body: unknown, how: Signed, key = secret) => {
    const response = await hooks.handle(new Request('http://app/hooks', { method: 'POST', ...signed(body, key, how) }));
    return { status: response.status, ...((await response.json()) as Record<string, unknown>) };
  };
  return { ...hooks, send };
}

t.test('signs the example of the standard as its libraries do', async (t) => {
  const headers = signStandard('{"test": 2432232314}', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', {
    id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    at: 1_614_265_330_000,
  });
  t.same(headers, {
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  });
});

t.test('recognises a repetition by its id, though each attempt has a new signature', async (t) => {
  let calls = 0;
  const { send } = start({ signing: 'standard', on: { track: () => void ++calls } });
  const body = webhook('track');
  t.match(await send(body, { signing: 'standard', id: 'a', at: 1_000_000 }), { status: 200 });
  t.match(await send(body, { signing: 'standard', id: 'a', at: 2_000_000 }), { duplicate: true });
  t.match(await send(body, { signing: 'standard', id: 'b', at: 2_000_000 }), { status: 200, received: true });
  t.equal(calls, 2);
});

t.test("keeps tenants' ids apart, so that none can pass another's messages off as repetitions", async (t) => {
  const { send } = start({ secret: ['secret of a', 'secret of b'], signing: 'standard', on: { any() {} } });
  const how = { signing: 'standard', id: 'the-same' } as const;
  for (const key of ['secret of a', 'secret of b']) {
    t.same(await send(webhook('track'), how, key), { status: 200, received: true });
  }
});

t.test("accepts both schemes with 'both', and judges a request with a standard signature by it", async (t) => {
  const { send, handle } = start({ signing: 'both', on: { any() {} } });
  for (const signing of ['x-signature', 'standard', 'both'] as const) {
    t.match(await send(webhook('track'), { signing }), { status: 200 });
  }
  const body = JSON.stringify(webhook('track'));
  const headers = { ...signed(body, secret, { signing: 'both' }).headers, 'webhook-timestamp': '1' };
  const forged = await handle(new Request('http://app/hooks', { method: 'POST', headers, body }));
  t.match(await forged.json(), { code: 'webhook_signature_mismatch' });
});

t.test('rejects signatures that are stale, in the future or undated', async (t) => {
  const clock = manualClock();
  clock.advance(Date.parse('2026-03-01T12:00:00Z'));
  for (const signing of ['standard', 'both'] as const) {
    const { send } = start({ signing, clock, maxAge: 300_000, on: { any() {} } });
    for (const [age, status] of [
      [0, 200],
      [300_000, 200],
      [301_000, 401],
      [-300_000, 200],
      [-302_000, 401],
    ] as const) {
      const answer = await send(webhook('track'), { signing: 'standard', at: clock.now() - age });
      t.equal(answer.status, status, `${signing} ${age}`);
      if (status === 401) t.match(answer, { code: 'webhook_too_old' });
    }
    t.match(await send(webhook('track'), { signing: 'x-signature' }), { code: 'webhook_headers_missing' });
  }
});

t.test('refuses maxAge without a signed time as a configuration mistake', async (t) => {
  for (const options of [{ maxAge: 1 }, { maxAge: 1, signing: 'x-signature' }, { maxAge: 0, signing: 'standard' }]) {
    t.throws(() => createReceiver({ secret, on: {}, ...options } as StandaloneOptions), TypeError);
  }
  t.throws(() => createReceiver({ secret: false, signing: 'both', maxAge: 1, on: {} }), /maxAge/);
  t.throws(() => createReceiver({ secret, on: {}, signing: 'sha1' } as unknown as StandaloneOptions), /signing is/);
});

t.test('refuses absurd headers of the standard before reading the body', async (t) => {
  const { handle } = start({ signing: 'standard' });
  const right = signed(webhook('track'), secret, { signing: 'standard' });
  const cases: [header: string, value: string][] = [
    ['webhook-id', ''],
    ['webhook-id', 'a b'],
    ['webhook-id', 'x'.repeat(256)],
    ['webhook-timestamp', '-1'],
    ['webhook-timestamp', '1e9'],
    ['webhook-timestamp', '9'.repeat(13)],
    ['webhook-signature', 'v1,'],
    ['webhook-signature', 'v1a,AAAA'],
    ['webhook-signature', `${'v2,x '.repeat(8)}${right.headers['webhook-signature']}`],
  ];
  for (const [header, value] of cases) {
    const headers = { ...right.headers, [header]: value };
    const response = await handle(new Request('http://app/hooks', { method: 'POST', headers, body: right.body }));
    t.equal(response.status, 401, `${header}: ${value.slice(0, 20)}`);
  }
});
