import { execFile } from 'node:child_process';
import type { ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import t from 'tap';
import { sign } from '../../receivers/index.ts';
import { parseMessage } from '../../receivers/parse/parse.ts';
import { type CaseResult, conformance, createSender, webhook } from '../../receivers/testing.ts';
import { hosts, serve } from './helpers/hosts.ts';
import { secret } from './helpers/samples.ts';

for (const [edge, host] of Object.entries(hosts)) {
  t.test(`passes every conformance case over ${edge}`, async (t) => {
    const { url, close } = await host({ secret, on: {} });
    t.after(close);
    for await (const { name, got, expected, passed, error } of conformance({ url, secret })) {
      t.ok(passed, `${name}: ${got}`, { expected, error });
    }
  });
}

for (const signing of ['standard', 'both'] as const) {
  for (const [edge, host] of Object.entries(hosts)) {
    t.test(`passes every conformance case over ${edge}, signed ${signing}, batches too`, async (t) => {
      const { url, close } = await host({ secret, signing, on: {} });
      t.after(close);
      for await (const { name, got, expected, passed, error } of conformance({ url, secret, signing, batches: true })) {
        t.ok(passed, `${name}: ${got}`, { expected, error });
      }
    });
  }
}

const run = promisify(execFile);
const check = new URL('../../receivers/check.ts', import.meta.url).pathname;

t.test('prints the cases in rollcall-receiver-check and ends with 0', async (t) => {
  const { url, close } = await hosts.node({ secret, on: {} });
  t.after(close);
  const { stdout } = await run(process.execPath, [check, url, '--secret', secret]);
  t.match(stdout, /^ok +valid identify/m);
  t.match(stdout, /^(\d+) of \1 right$/m);
});

t.test('names in rollcall-receiver-check what a careless receiver gets wrong and ends with 1', async (t) => {
  const { url, close } = await hosts.node({ secret: false, on: {} });
  t.after(close);
  const failure = await run(process.execPath, [check, url, '--secret', secret]).catch((error) => error);
  t.equal(failure.code, 1);
  t.match(failure.stdout, /^WRONG +signature: missing +200 +expected 401$/m);
});

t.test('takes the secret from the environment in rollcall-receiver-check, batches and the standard', async (t) => {
  const { url, close } = await hosts.node({ secret, signing: 'both', on: {} });
  t.after(close);
  const env = { ...process.env, ROLLCALL_SECRET: secret };
  const { stdout } = await run(process.execPath, [check, url, '--signing', 'both', '--batches'], { env });
  t.match(stdout, /^ok +batch: of 500/m);
  t.match(stdout, /^ok +standard: another time +401$/m);
});

t.test('says in rollcall-receiver-check in one line that a URL cannot be reached, and ends with 1', async (t) => {
  const { url, close } = await hosts.node({ secret, on: {} });
  await close();
  const failure = await run(process.execPath, [check, url, '--secret', secret]).catch((error) => error);
  t.equal(failure.code, 1);
  t.equal(failure.stdout, '');
  t.match(failure.stderr, /^http:.* can't be reached: ECONNREFUSED\n$/);
});

t.test('checks repetitions and order by what the handlers have written', async (t) => {
  const careful: string[] = [];
  const write = ({ messageId }: { messageId?: string | undefined }) => void careful.push(String(messageId));
  const { url, close } = await hosts.node({ secret, signing: 'both', on: { identify: write, track: write } });
  t.after(close);
  for (const signing of ['x-signature', 'standard'] as const) {
    const target = { url, secret, signing, batches: true, handled: () => careful.join() };
    for await (const { name, verdict, error } of conformance(target)) t.equal(verdict, 'right', name, { error });
  }
  const careless: string[] = [];
  const app = await serve(
    async (request, response) => {
      const body = await text(request).catch(() => '');
      for (const [, id = ''] of body.matchAll(/"messageId":"([^"]+)"/g)) careless.push(id);
      response.end();
    },
    async () => {},
  );
  t.after(app.close);
  const wrong: string[] = [];
  for await (const { name, verdict, error } of conformance({
    url: app.url,
    secret,
    batches: true,
    handled: () => careless.join(),
    timeout: 2_000,
  })) {
    if (verdict === 'wrong' && /handled .* instead of/.test(error ?? '')) wrong.push(name);
  }
  t.same(wrong, [
    'repetition: handled once',
    'repetition: handled once, though sent three times at once',
    'order: an older change after a newer one is not handled',
    'repetition: a message of two batches is handled once',
  ]);
});

t.test('gives advice only to a receiver that differs where the sender sends nothing, and ends with 0', async (t) => {
  const { url, close } = await serve(
    async (request, response) => {
      const body = await text(request).catch(() => '');
      const isRight = request.headers['x-signature'] === sign(body, secret);
      response.writeHead(isRight ? 204 : 403).end();
    },
    async () => {},
  );
  t.after(close);
  const { stdout } = await run(process.execPath, [check, url, '--secret', secret]);
  t.match(stdout, /^advice +signature: missing +403 +expected 401$/m);
  t.match(stdout, /^\d+ of \d+ right, advice on \d+\nNot checked without --log: repetitions and order\.$/m);
});

t.test('fails only one case for a receiver that waits for bytes that never arrive', async (t) => {
  const { url, close } = await serve(
    (request, response) => {
      request.resume().on('error', () => {});
      request.on('end', () => response.end());
    },
    async () => {},
  );
  t.after(close);
  const results: CaseResult[] = [];
  for await (const result of conformance({ url, secret, timeout: 2_000 })) results.push(result);
  t.match(
    results.find(({ name }) => name.startsWith('too large')),
    { passed: false, error: /no answer within 2000 ms/ },
  );
  t.match(results.at(-1), { got: [200], passed: true });
});

t.test(
  'batches: takes a plain-text answer as success, and lets a receiver finish later what missed its deadline',
  async (t) => {
    const answers: Record<string, (response: ServerResponse, body: string) => void> = {
      'in plain text': (response) => response.end('ok'),
      'in a sequence of JSON': (response) => response.setHeader('content-type', 'application/json-seq').end('\x1e{}\n'),
      'a part at a time': (response, body) => {
        const { batch = [] } = JSON.parse(body) as { batch?: unknown[] };
        const rejected = batch.map((_, index) => ({ index, code: 'deadline', retry: true })).slice(200);
        response.setHeader('content-type', 'application/json').end(JSON.stringify({ rejected }));
      },
    };
    for (const [how, answer] of Object.entries(answers)) {
      const { url, close } = await serve(
        (request, response) => {
          text(request).then(
            (body) => (body.startsWith('{"batch":[{') ? answer(response, body) : response.end()),
            () => response.destroy(),
          );
        },
        async () => {},
      );
      t.after(close);
      const passed: string[] = [];
      for await (const each of conformance({ url, secret, batches: true, timeout: 2_000 }))
        if (each.passed) passed.push(each.name);
      for (const name of ['batch: of one message', 'batch: of 500']) t.ok(passed.includes(name), `${how}, ${name}`);
    }
  },
);

t.test('fails a receiver whose answers never end, and keeps the checking process alive', async (t) => {
  const answers: [answer: (response: ServerResponse) => void, error: RegExp, timeout?: number][] = [
    [(response) => response.write('and then'), /aborted/, 200],
    [(response) => response.end('x'.repeat(2 * 1024 * 1024)), /the answer is longer than/],
  ];
  for (const [answer, error, timeout] of answers) {
    const { url, close } = await serve(
      (request, response) => {
        request.resume();
        answer(response);
      },
      async () => {},
    );
    t.after(close);
    await t.rejects(createSender({ url, secret, timeout }).send(webhook('track')), error);
  }
});

t.test('explains the use of rollcall-receiver-check and ends with 2', async (t) => {
  for (const url of ['not a url', 'localhost:3000/hooks']) {
    const failure = await run(process.execPath, [check, url, '--secret', secret]).catch((error) => error);
    t.equal(failure.code, 2);
    t.match(failure.stderr, /^give one URL, which begins with http/);
    t.match(failure.stderr, 'Usage: rollcall-receiver-check URL');
  }
});

t.test('passes no __proto__ key to handlers, escaped or not', async (t) => {
  for (const key of ['__proto__', '\\u005f_proto__', '__pr\\u006fto__']) {
    const text = `{"version":1,"type":"identify","userId":"u","timestamp":"2026-01-02T03:04:05.678Z","traits":{"${key}":{"admin":true}}}`;
    const parsed = parseMessage(Buffer.from(text));
    if (!parsed.ok || parsed.message.type !== 'identify') return t.fail('it parses');
    t.same(Object.keys(parsed.message['traits'] as object), [], key);
  }
});
