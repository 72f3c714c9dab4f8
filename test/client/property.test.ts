import fs from 'node:fs';
import fc from 'fast-check';
import t from 'tap';
import type { ClientClock } from '../../src/client/clock.ts';
import { Client, type Loss } from '../../src/client/index.ts';
import { systemClock } from '../../src/client/node/clock.ts';
import { folder } from './folder.ts';
import { type Received, service, success } from './service.ts';

/** Back-offs are over at once; deadlines, which are set in steps of 3,750 and 2,500 ms, never come. */
const impatient: ClientClock = {
  ...systemClock,
  after(ms, callback) {
    if (ms === 3_750 || ms === 2_500) return () => {};
    const immediate = setImmediate(callback);
    return () => clearImmediate(immediate);
  },
};

const answers = {
  ok: (r: Received) => r.reply(200, success),
  rejectFirst: (r: Received) => r.reply(200, { success: true, rejected: [{ index: 0, code: 'x', message: 'x' }] }),
  unavailable: (r: Received) => r.reply(503),
  limited: (r: Received) => r.reply(429, {}, { 'retry-after': '0' }),
  refused: (r: Received) => r.reply(400, { code: 'x', message: 'x' }),
  broken: (r: Received) => r.reset(),
  cut: (r: Received) => r.cut(200),
};

const history = fc.record({
  script: fc.array(fc.constantFrom(...(Object.keys(answers) as (keyof typeof answers)[])), { maxLength: 12 }),
  /** How many calls before each turn of the loop. */
  calls: fc.array(fc.integer({ min: 0, max: 40 }), { maxLength: 8 }),
  flushAt: fc.integer({ min: 1, max: 30 }),
  maxQueueCount: fc.integer({ min: 10, max: 200 }),
  spooled: fc.boolean(),
});

t.test(
  'counts every call in one report and delivers accepted messages once, in order, whatever the service answers',
  async (t) => {
    let script: (keyof typeof answers)[] = [];
    let given: { batch: Received['batch']; answer: keyof typeof answers }[] = [];
    const { endpoint } = await service(t, (r) => {
      const answer = script.shift() ?? 'ok';
      given.push({ batch: r.batch, answer });
      answers[answer](r);
    });
    const spool = folder(t);
    await fc.assert(
      fc.asyncProperty(history, async ({ spooled, calls, ...h }) => {
        script = [...h.script];
        given = [];
        const losses: Loss[] = [];
        const client = new Client('KEY', {
          ...{ endpoint, clock: impatient, flushAt: h.flushAt, maxQueueCount: h.maxQueueCount },
          ...(spooled ? { spool } : {}),
          onLoss: (loss) => losses.push(loss),
        });
        let called = 0;
        for (const count of calls) {
          for (let i = 0; i < count; i++) client.track({ userId: 'u', event: String(called++) });
          await new Promise(setImmediate);
        }
        const report = await client.close();

        const taken = given
          .filter(({ answer }) => ['ok', 'rejectFirst', 'cut'].includes(answer))
          .flatMap(({ batch, answer }) => (answer === 'rejectFirst' ? batch.slice(1) : batch))
          .map((m) => Number(m['event']));
        const lost = losses.flatMap(({ messages }) => messages.map((m) => Number(m['event'])));
        const inOrder = taken.every((event, i) => i === 0 || event > taken[i - 1]!);
        const all = [...taken, ...lost].sort((a, b) => a - b);
        return (
          inOrder &&
          all.length === called &&
          all.every((event, i) => event === i) &&
          report.sent === taken.length &&
          report.failed + report.dropped === lost.length &&
          fs.readdirSync(spool).length === 0
        );
      }),
      { numRuns: 150 },
    );
  },
);
