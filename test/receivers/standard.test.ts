import t from 'tap';
import { createReceiver as createEdgeReceiver } from '../../receivers/edge.ts';
import { createReceiver, type StandaloneOptions, sign, signStandard } from '../../receivers/index.ts';
import { sqliteStore } from '../../receivers/sqlite.ts';
import { envelope, signed, webhook } from '../../receivers/testing.ts';
import { manualClock, signal } from './helpers/clock.ts';
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

/** The parts of a request with both kinds of signatures that alone would pass for another request. */
const strip = ({ 'x-signature': signature = '', ...standard }: Record<string, string>) => ({
  both: { 'x-signature': signature, ...standard },
  'x-signature': { 'content-type': 'application/json', 'x-signature': signature },
  standard,
});

const stores = {
  memory: () => undefined,
  sqlite: () => sqliteStore(':memory:'),
  inbox: () => sqliteStore(':memory:'),
};

/** The same request with every choice of its signatures that a receiver may accept alone. */
function copiesOf(body: string, secrets: readonly string[], signing: 'standard' | 'both') {
  const { 'webhook-signature': all, ...standard } = signStandard(body, secrets, { id: 'msg-1', at: Date.now() });
  const lists = [all, ...(secrets.length > 1 ? all.split(' ') : [])];
  const copies = lists.map((list) => ({ ...standard, 'webhook-signature': list }) as Record<string, string>);
  if (signing === 'standard') return copies;
  const own = { 'x-signature': sign(body, secrets[0] as string) };
  return [...copies.map((copy) => ({ ...copy, ...own })), ...copies, own];
}

const NEW = 'the new secret';
const OLD = 'the old secret';
const rotations = [
  { sender: [NEW], receiver: ['another', NEW] },
  { sender: [NEW, OLD], receiver: [NEW, OLD] },
  { sender: [OLD, NEW], receiver: [NEW, OLD] },
];
const bodies = {
  'a message': () => JSON.stringify(webhook('track')),
  'a batch': () => envelope([webhook('track')]),
};

for (const [name, openStore] of Object.entries(stores)) {
  for (const signing of ['standard', 'both'] as const) {
    t.test(
      `${name}: with '${signing}', handles a request once, whichever of its signatures are stripped`,
      async (t) => {
        for (const { sender, receiver } of rotations) {
          for (const [what, make] of Object.entries(bodies)) {
            const body = make();
            const copies = copiesOf(body, sender, signing);
            for (const first of copies) {
              for (const open of name === 'inbox' ? [createReceiver] : [createReceiver, createEdgeReceiver]) {
                const store = openStore();
                const handled = signal();
                let calls = 0;
                const hooks = open({
                  secret: receiver,
                  signing,
                  log: silent,
                  ...(store && { store }),
                  ...(name === 'inbox' && { ack: 'stored' }),
                  on: {
                    track() {
                      calls += 1;
                      handled.resolve();
                    },
                  },
                } as never);
                const isHandledByFirst = first === copies[0];
                for (const copy of isHandledByFirst ? copies : [first, copies[0], first]) {
                  const headers = { 'content-type': 'application/json', ...copy };
                  const answer = await hooks.handle(new Request('http://app/hooks', { method: 'POST', headers, body }));
                  t.equal(answer.status, 200);
                  await handled.promise;
                }
                t.equal(calls, 1, `${what} of ${sender}`);
                await hooks.close();
                store?.close();
              }
            }
          }
        }
      },
    );
  }
}

t.test("with 'both', joins no request to a failed one, and lets the repetition in by either signature", async (t) => {
  for (const second of ['both', 'x-signature', 'standard'] as const) {
    let calls = 0;
    const { handle } = start({
      signing: 'both',
      on: {
        async track() {
          calls += 1;
          if (calls === 1) throw new Error('boom');
        },
      },
    });
    const { headers, body } = signed(webhook('track'), secret, { signing: 'both' });
    const send = (form: keyof ReturnType<typeof strip>) =>
      handle(new Request('http://app/hooks', { method: 'POST', headers: strip(headers)[form], body }));
    t.equal((await send('both')).status, 500);
    t.equal((await send(second)).status, 200);
    t.equal(calls, 2);
  }
});

t.test("with 'both', two forms of a request at once run its handler once", async (t) => {
  const [started, release] = [signal(), signal()];
  let calls = 0;
  const { handle } = start({
    signing: 'both',
    on: {
      async track() {
        calls += 1;
        started.resolve();
        await release.promise;
      },
    },
  });
  const { headers, body } = signed(webhook('track'), secret, { signing: 'both' });
  const forms = strip(headers);
  const send = (form: keyof typeof forms) =>
    handle(new Request('http://app/hooks', { method: 'POST', headers: forms[form], body }));
  const first = send('both');
  await started.promise;
  t.equal((await send('x-signature')).status, 503);
  release.resolve();
  t.equal((await first).status, 200);
  t.match(await (await send('x-signature')).json(), { duplicate: true });
  t.equal(calls, 1);
});

t.test('says how old a refused request is, alone or as a batch', async (t) => {
  const clock = manualClock();
  clock.advance(Date.parse('2026-03-01T12:00:00Z'));
  const hints: unknown[] = [];
  const log = { ...silent, warn: ({ hint }: Record<string, unknown>) => hints.push(hint) };
  const { send } = start({ signing: 'standard', clock, maxAge: 2_000, log, on: { any() {} } });
  const at = clock.now() - 5_000;
  await send(webhook('track'), { signing: 'standard', at });
  await send(envelope([webhook('track')], { sentAt: new Date(at) }), { signing: 'standard', at: clock.now() });
  t.same(hints, Array(2).fill('it was signed 5000 ms ago, and maxAge is 2000 ms'));
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
  for (const options of [{ maxAge: 1000 }, { maxAge: 1000, signing: 'x-signature' }]) {
    t.throws(() => createReceiver({ secret, on: {}, ...options } as StandaloneOptions), /maxAge needs signing/);
  }
  for (const maxAge of [0, 300, 999, Number.NaN]) {
    const options = { secret, signing: 'standard', maxAge, on: {} } as const;
    t.throws(() => createReceiver(options), /maxAge is in milliseconds/);
  }
  t.throws(() => createReceiver({ secret: false, signing: 'both', maxAge: 1000, on: {} }), /maxAge needs signing/);
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
