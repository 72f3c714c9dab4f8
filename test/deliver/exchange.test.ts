import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { Dispatcher } from 'undici';
import { classifyError } from '../../src/deliver/classify.ts';
import { type Exchange, post } from '../../src/deliver/exchange.ts';
import { responseText } from '../../src/deliver/response-text.ts';
import { ATTEMPT_TIMEOUT } from '../../src/kernel/retry.ts';
import { ManualClock } from '../helpers/clock.ts';

const REQUEST = { origin: 'http://crm.example', path: '/', headers: [], body: Buffer.from('{}') };
type Handler = Required<Dispatcher.DispatchHandler>;
type Controller = Dispatcher.DispatchController;

/** A client of HTTP that does to its handler what a test says. */
class Scripted extends Dispatcher {
  private readonly script: (handler: Handler, controller: Controller) => void;
  readonly controller = { abort: () => {} } as unknown as Controller;

  constructor(script: (handler: Handler, controller: Controller) => void) {
    super();
    this.script = script;
  }

  override dispatch(_: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    this.script(handler as Handler, this.controller);
    return true;
  }
}

/** The result of a post, once the five seconds are over at the latest; its promise resolved once and left no timer. */
async function outcome(t: Test, script: (handler: Handler, controller: Controller) => void): Promise<Exchange> {
  const clock = new ManualClock();
  const posted = post(new Scripted(script), clock, REQUEST);
  clock.advance(ATTEMPT_TIMEOUT);
  const exchange = await posted;
  t.equal(clock.count(ATTEMPT_TIMEOUT), 0, 'no timer is left');
  return exchange;
}

t.test('ends a post with one result, whatever the HTTP client does', async (t) => {
  const head = (handler: Handler, controller: Controller, status: number, headers = {}) =>
    handler.onResponseStart(controller, status, headers, '');
  t.match(
    await outcome(t, () => {
      throw new TypeError('thrown at once');
    }),
    { outcome: 'retry', status: null, error: 'connection_failed' },
  );
  t.match(await outcome(t, () => {}), { outcome: 'retry', status: null, error: 'timeout' });
  t.match(
    await outcome(t, (handler, controller) => {
      handler.onResponseEnd(controller, {});
      head(handler, controller, 200);
      handler.onResponseEnd(controller, {});
    }),
    { outcome: 'retry', status: null, error: 'connection_failed' },
    'an end without a head is no answer',
  );
  t.match(
    await outcome(t, (handler, controller) => {
      head(handler, controller, 200);
      head(handler, controller, 500);
      handler.onResponseEnd(controller, {});
      handler.onResponseError(controller, new Error('late'));
      handler.onResponseEnd(controller, {});
    }),
    { outcome: 'success', status: 200, error: null },
    'the first status stands',
  );
  t.match(
    await outcome(t, (handler, controller) => {
      head(handler, controller, 500);
      handler.onResponseData(controller, Buffer.from('before'));
      handler.onResponseEnd(controller, {});
      handler.onResponseData(controller, Buffer.from('after'));
    }),
    { outcome: 'retry', status: 500, response: 'before' },
    'what comes after the end is not of the answer',
  );
  t.match(
    await outcome(t, (handler, controller) => {
      handler.onResponseError(controller, null as unknown as Error);
      throw new Error('thrown after it ended');
    }),
    { outcome: 'retry', error: 'connection_failed' },
  );
  t.match(
    await outcome(t, (handler) => {
      const fails = {
        abort: () => {
          throw new Error('can not be aborted');
        },
      };
      handler.onRequestStart(fails as unknown as Controller, {});
    }),
    { outcome: 'retry', error: 'timeout' },
  );
});

t.test('treats unusual names of content codings as plain names', async (t) => {
  const names = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'valueOf', 'nonsense', ' ', ',,,'];
  for (const name of names) {
    t.equal(await responseText(Buffer.from('out of order'), name), 'out of order', name);
    t.match(
      await outcome(t, (handler, controller) => {
        handler.onResponseStart(controller, 400, { 'content-encoding': name }, '');
        handler.onResponseData(controller, Buffer.from('out of order'));
        handler.onResponseEnd(controller, {});
      }),
      { outcome: 'refused', status: 400, response: 'out of order' },
      name,
    );
  }
});

t.test('undoes successive codings in turn, three at most', async (t) => {
  const text = Buffer.from('out of order');
  t.equal(await responseText(brotliCompressSync(gzipSync(text)), 'gzip, br'), 'out of order');
  t.equal(await responseText(zstdCompressSync(deflateSync(text)), 'Deflate,identity,ZSTD'), 'out of order');
  const often = gzipSync(gzipSync(gzipSync(gzipSync(text))));
  t.equal(await responseText(often, 'gzip,gzip,gzip,gzip'), often.toString('utf8').replaceAll('\0', '\ufffd'));
});

t.test('cuts endless inflation, and shows damaged bodies as far as possible', async (t) => {
  const bomb = gzipSync(gzipSync(Buffer.alloc(50_000_000)));
  t.equal((await responseText(bomb, 'gzip, gzip')).length, 65_536);
  for (const [coding, made] of Object.entries({ gzip: gzipSync, br: brotliCompressSync, zstd: zstdCompressSync })) {
    const whole = made(Buffer.from('damaged '.repeat(1_000)));
    for (const at of [0, 1, 5, Math.floor(whole.length / 2), whole.length - 1]) {
      t.equal(typeof (await responseText(whole.subarray(0, at), coding)), 'string', `${coding} cut at ${at}`);
    }
  }
});

t.test('treats unusual error codes as plain names', (t) => {
  const circular = new Error('its own cause');
  circular.cause = circular;
  const failures = [
    ['constructor', 'constructor'],
    ['__proto__', '__proto__'],
    ['toString', 'toString'],
  ] as const;
  for (const [code, error] of failures) t.same(classifyError({ code }), { outcome: 'retry', error });
  for (const failure of [circular, null, undefined, 'text', 7, { code: 7 }, { errors: [null] }, { code: '' }]) {
    t.same(classifyError(failure), { outcome: 'retry', error: 'connection_failed' });
  }
  t.end();
});
