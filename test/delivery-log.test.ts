import { pino } from 'pino';
import t from 'tap';
import { DeliveryLog } from '../src/delivery-log.ts';
import type { Attempt, Claim, Settlement, Verdict } from '../src/store/port.ts';

const claim = {
  ...{ id: 'd1', destination: 'crm', source: 'shop', type: 'track', messageId: 'm', lane: 'live' },
  tries: 1,
};
const RETRY = { kind: 'retry', dueAt: 1_000, firstAt: 0, marks: {} } as const;

function settlement(verdict: Verdict, over: Partial<Attempt> = {}): Settlement {
  const attempt: Attempt = {
    ...{
      endpoint: 'e1',
      at: 0,
      ms: 5151.4269810000005,
      outcome: 'retry',
      status: null,
      error: 'timeout',
      response: null,
    },
    ...over,
  };
  return { claim: claim as unknown as Claim, verdict, attempts: [attempt] };
}

function logged(level: string) {
  const lines: Record<string, unknown>[] = [];
  const timers: (() => void)[] = [];
  const clock = {
    after: (_ms: number, callback: () => void) => {
      timers.push(callback);
      return () => {};
    },
  };
  const log = pino({ level, base: null }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  return { lines, timers, log: new DeliveryLog(log, clock) };
}

t.test('logs ordinary retries as one line per endpoint and minute', async (t) => {
  const { lines, timers, log } = logged('info');
  for (let n = 0; n < 170; n += 1) log.settled(settlement(RETRY));
  log.settled(settlement(RETRY, { status: 503, error: null }));
  log.settled(settlement(RETRY, { endpoint: 'e2', status: 500, error: null }));
  t.same(lines, []);
  t.equal(timers.length, 1);
  timers[0]?.();
  t.match(lines, [
    {
      endpoint: 'e1',
      retried: 171,
      causes: { timeout: 170, 503: 1 },
      msg: 'crm: 171 will be retried (timeout 170, 503 1)',
    },
    { endpoint: 'e2', retried: 1 },
  ]);
  log.flush();
  t.equal(lines.length, 2, 'once');
  log.settled(settlement(RETRY));
  t.equal(timers.length, 2, 'and the next minute begins with the next failure');
});

t.test('logs a dead letter as a line, with whole milliseconds and no internals', async (t) => {
  const { lines, log } = logged('info');
  log.settled(settlement({ kind: 'delivered' }, { outcome: 'success' }));
  log.settled(settlement({ kind: 'dead', reason: 'refused', status: 400, firstAt: 0 }));
  t.match(lines, [{ msg: 'dead letter', verdict: { kind: 'dead', reason: 'refused' }, tried: [{ ms: 5151 }] }]);
  t.notOk(JSON.stringify(lines).match(/marks|lane|firstAt/));
});

t.test('logs a few of many dead letters, and the rest as one line a minute', async (t) => {
  const { lines, timers, log } = logged('info');
  const dead = settlement({ kind: 'dead', reason: 'refused', status: 400, firstAt: 0 });
  for (let n = 0; n < 1_000; n += 1) log.settled(dead);
  t.equal(lines.length, 20);
  timers[0]?.();
  t.match(lines.slice(20), [{ level: 40, destination: 'crm', more: 980, msg: 'crm: 980 more dead letters' }]);
  log.settled(dead);
  t.match(lines.slice(21), [{ msg: 'dead letter' }], 'and the next minute has its own');
  log.flush();
  t.equal(lines.length, 22, 'few are not counted once more');
});

t.test('logs every try at level debug', async (t) => {
  const { lines, log } = logged('debug');
  log.settled(settlement({ kind: 'delivered' }, { outcome: 'success' }));
  log.settled(settlement(RETRY));
  t.match(lines, [{ msg: 'delivered' }, { msg: 'will be retried', verdict: { next: '1970-01-01T00:00:01.000Z' } }]);
});
