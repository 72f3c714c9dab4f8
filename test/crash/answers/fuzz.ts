import * as fc from 'fast-check';
import type { Test } from 'tap';
import type { Turns } from '../../../src/deliver/turns.ts';
import { ATTEMPT_TIMEOUT } from '../../../src/kernel/retry.ts';
import type { AttemptRecord, Settlement } from '../../../src/store/port.ts';
import { Receiver } from '../../deliver/helpers/receiver.ts';
import { destination, message, Rig } from '../../deliver/helpers/rig.ts';
import { type Answer, answer } from './arbitrary.ts';
import { Hostile } from './hostile.ts';

/** Endpoints that answer at the same time, each once. */
const BATCH = 25;
/** Batches with one store and one worker. */
const BATCHES = 10;
/** Messages for the endpoint beside them, while theirs are in flight. */
const HONEST = 5;
const TIMEOUT = 5_000;

/**
 * Gives the worker so many generated answers. After each the process lives, the delivery has one outcome, which the
 * store keeps and lists, and an honest endpoint beside got all of its messages while the others were still at it.
 */
export async function fuzz(t: Test, answers: number, seed: number): Promise<void> {
  const given = fc.sample(answer, { numRuns: answers, seed });
  const tally = new Map<string, number>();
  for (let from = 0; from < given.length; from += BATCH * BATCHES) {
    await t.test(`answers ${from} to ${Math.min(given.length, from + BATCH * BATCHES) - 1}`, async (t) => {
      const honest = await Receiver.start(t);
      const rig = await Rig.start(t, { destinations: [], network: { idleTimeout: 100 } });
      for (let at = from; at < Math.min(given.length, from + BATCH * BATCHES); at += BATCH) {
        const batch = given.slice(at, Math.min(given.length, at + BATCH, from + BATCH * BATCHES));
        const outcomes = await giveBatch(t, rig, honest, batch, at);
        for (const outcome of outcomes) tally.set(outcome, (tally.get(outcome) ?? 0) + 1);
      }
    });
  }
  const most = [...tally].sort(([, a], [, b]) => b - a).slice(0, 12);
  t.comment(`${answers} answers of seed ${seed}: ${most.map((entry) => entry.join(' ')).join(', ')}`);
}

async function giveBatch(t: Test, rig: Rig, honest: Receiver, batch: readonly Answer[], at: number): Promise<string[]> {
  const hostile = await Promise.all(batch.map((each) => Hostile.start(each)));
  const names = hostile.map((_, index) => `hostile ${at + index}`);
  const configure = (isServed: (name: string) => boolean) =>
    rig.configure([
      ...hostile
        .map(({ url }, index) => destination(url, { name: names[index] as string }))
        .filter(({ name }) => isServed(name)),
      destination(honest.url, { name: 'honest', sources: ['honest'] }),
    ]);
  configure(() => true);
  const before = rig.settlements.length;
  const settled = () => rig.settlements.slice(before).filter(({ verdict }) => verdict.kind !== 'release');
  const ended = (name: string) => settled().filter(({ claim }) => claim.destination === name);
  await rig.accept('shop', [message()]);
  await rig.accept(
    'honest',
    Array.from({ length: HONEST }, () => message()),
  );
  await rig.until(() => ended('honest').length === HONEST);
  t.same(
    new Set(ended('honest').map(({ verdict }) => verdict.kind)),
    new Set(['delivered']),
    'the honest endpoint got all',
  );
  // Whoever closes, or gives a whole answer, needs no clock.
  const closing = names.filter((_, index) => batch[index]?.end !== 'open' || batch[index]?.status !== null);
  await rig.until(() => closing.every((name) => ended(name).length > 0));
  // An ended try may be due again: one try of each is looked at.
  configure((name) => ended(name).length === 0);
  rig.clock.advance(TIMEOUT);
  await rig.until(() => names.every((name) => ended(name).length > 0));
  const records = await attemptsOf(rig, names);
  for (const [index, each] of batch.entries()) {
    const name = names[index] as string;
    const fault = faultOf(each, ended(name), records.get(name) ?? []);
    if (fault !== null)
      t.fail(`answer ${at + index}: ${fault}`, {
        answer: Buffer.concat(each.parts).toString('latin1').slice(0, 500),
        each,
      });
  }
  t.same(inFlight(rig), 0, 'every place is given back');
  // The heartbeat's timer, which is as long, may be about to be set again.
  t.ok(rig.clock.count(ATTEMPT_TIMEOUT) <= 1, 'no timer is left but that of the lease');
  rig.configure([]);
  for (const { sockets } of hostile) while (sockets.size > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  for (const each of hostile) each.close();
  return names.map((name) => ended(name)[0]?.attempts[0]?.error ?? 'success');
}

/** The store's lists once all is written, by destination. */
async function attemptsOf(rig: Rig, names: readonly string[]): Promise<ReadonlyMap<string, readonly AttemptRecord[]>> {
  for (;;) {
    const lists = await Promise.all(names.map((name) => rig.store.attempts({ destination: name, limit: 5 })));
    if (lists.every(({ length }) => length > 0)) return new Map(names.map((name, index) => [name, lists[index] ?? []]));
  }
}

/** The fault in what followed from an answer; null for none. */
function faultOf(given: Answer, settled: readonly Settlement[], records: readonly AttemptRecord[]): string | null {
  const [settlement, ...again] = settled;
  const [record, ...others] = records;
  const [attempt] = settlement?.attempts ?? [];
  if (!settlement || !attempt || again.length > 0) return `it was settled ${settled.length} times`;
  if (!record || others.length > 0) return `the store lists ${records.length} attempts`;
  const { outcome, status, error, response, ms } = record;
  if (given.status !== null && status !== given.status)
    return `the status is ${status} (${error}), not ${given.status}`;
  if ((outcome === 'success') !== (status !== null && status >= 200 && status < 300)) return `${status} is ${outcome}`;
  if ((error === null) !== (outcome === 'success')) return `${outcome} has the cause ${error}`;
  if ((outcome === 'success') !== (settlement.verdict.kind === 'delivered'))
    return `${outcome} is ${settlement.verdict.kind}`;
  if (response !== attempt.response || error !== attempt.error) return 'the store lists another attempt';
  if (response !== null && (response.includes('\0') || response.length > 65_536))
    return 'its response is not fit to be shown';
  if (error !== null && !/^\w{1,60}$/.test(error)) return `its cause is ${error}`;
  return ms >= 0 && ms <= TIMEOUT ? null : `it took ${ms} ms`;
}

/** Places taken in the windows of all endpoints. */
function inFlight(rig: Rig): number {
  const { queues } = Reflect.get(rig.worker, 'turns') as Turns;
  const outlets = queues.flatMap(({ outlets }) => outlets.list);
  return outlets.reduce((sum, { window }) => sum + window.inFlight, 0);
}
