import t from 'tap';
import { Stock } from '../../src/deliver/stock.ts';
import { released } from '../../src/deliver/verdict.ts';
import { type Claim, type ClaimRequest, type ClaimResult, NO_MARKS } from '../../src/store/port.ts';
import { ManualClock } from '../helpers/clock.ts';

const claimOf = (body: string, over: Partial<Claim> = {}): Claim => ({
  ...{ id: body, destination: 'crm', source: 'shop', messageId: body, type: 'track', userId: null, body },
  ...{ lane: 'live', conflict: null, run: null, tries: 0, acceptedAt: 0, firstAt: null, marks: NO_MARKS, crashes: 0 },
  ...over,
});

/** A stock, and a store that gives it what it has. */
function scene() {
  const clock = new ManualClock();
  const stock = new Stock(clock, 1);
  const stored: Claim[] = [];
  const asked: number[] = [];
  const claim = async (limit: number, over: Partial<ClaimRequest> = {}, next: number | null = null) => {
    const request = { destination: 'crm', limit, order: 'usual', ...over } as const;
    const fromStore = async ([look]: readonly ClaimRequest[]): Promise<ClaimResult> => {
      asked.push(look?.limit ?? 0);
      const claims = stored.splice(0, look?.limit);
      return { claims: [claims], nextDue: new Map([['crm', next]]) };
    };
    const { claims, nextDue } = await stock.serve([request], fromStore);
    return { bodies: (claims[0] ?? []).map(({ body }) => body), nextDue: nextDue.get('crm') };
  };
  const accept = (...bodies: (string | Claim)[]) => {
    const claims = bodies.map((body) => (typeof body === 'string' ? claimOf(body) : body));
    const counts = new Map([['crm', claims.length]]);
    const room = stock.reserve(counts);
    const taken = claims.slice(0, room.get('crm') ?? 0);
    stored.push(...claims.slice(taken.length));
    stock.accepted(counts, room, taken);
    return taken.length;
  };
  return { clock, stock, stored, asked, claim, accept };
}

t.test('takes nothing for a worker that never asked', async (t) => {
  const { accept } = scene();
  t.equal(accept('1'), 0);
});

t.test('takes accepted deliveries up to the number requested in vain', async (t) => {
  const { accept, claim, asked, clock } = scene();
  await claim(2);
  t.equal(accept('1'), 1);
  t.equal(accept('2', '3'), 1);
  t.same((await claim(2)).bodies, ['1', '2'], 'the store need not be asked');
  t.same(asked, [2]);
  clock.advance(1_000);
  t.equal(accept('4'), 0, 'the third still waits in the store');
  t.same((await claim(3)).bodies, ['3', '4']);
  t.equal(accept('5'), 1);
});

t.test('takes nothing while due deliveries had no room in the last claim', async (t) => {
  const { accept, claim, clock } = scene();
  await claim(2, {}, clock.now());
  t.equal(accept('1'), 0);
  await claim(2, {}, clock.now() + 1);
  t.equal(accept('2'), 1);
});

t.test('promises room to one accept only', async (t) => {
  const { stock, claim } = scene();
  await claim(3);
  const counts = new Map([['crm', 2]]);
  const [first, second] = [stock.reserve(counts), stock.reserve(counts)];
  t.same([first.get('crm'), second.get('crm')], [2, 1]);
  stock.accepted(counts, first, []);
  stock.accepted(counts, second, []);
  t.equal(stock.reserve(counts).size, 0, 'what found no room waits in the store, and goes first');
  await claim(3);
  t.equal(stock.reserve(new Map([['crm', 5]])).get('crm'), 3, 'what came to nothing is free again');
});

t.test('serves deletion notices before live messages before backfills', async (t) => {
  const { accept, claim } = scene();
  await claim(10);
  accept(claimOf('backfill', { lane: 'backfill' }), 'live');
  accept(claimOf('notice', { lane: 'deletion', type: 'delete' }));
  t.same((await claim(10)).bodies, ['notice', 'live', 'backfill']);
});

t.test('looks for released deliveries though newer ones are in stock', async (t) => {
  const { stock, accept, claim, stored } = scene();
  await claim(10);
  accept('old');
  t.same((await claim(1)).bodies, ['old']);
  const old = claimOf('old');
  stored.push(old);
  stock.settled([released(old)]);
  accept('new');
  t.same((await claim(2)).bodies.sort(), ['new', 'old']);
});

t.test('asks the store again after a while, and at once for due retries', async (t) => {
  const { clock, stock, accept, claim, asked, stored } = scene();
  await claim(10);
  accept('1', '2');
  const { nextDue } = await claim(10);
  t.equal(asked.length, 1);
  t.equal(nextDue, clock.now() + 200);
  accept('3');
  const retry = claimOf('retry');
  stock.settled([
    { claim: retry, verdict: { kind: 'retry', dueAt: clock.now() + 50, firstAt: 0, marks: {} }, attempts: [] },
  ]);
  clock.advance(60);
  stored.push(retry);
  t.same((await claim(10)).bodies.sort(), ['3', 'retry']);
});

t.test('considers stock stale after five seconds without a request', async (t) => {
  const { clock, stock, accept, claim } = scene();
  await claim(10);
  accept('1');
  clock.advance(5_000);
  t.same(stock.clearStale(), []);
  clock.advance(1);
  t.equal(stock.clearStale().length, 1);
  t.equal(accept('2'), 0);
});

t.test('takes nothing after being cleared until somebody asks again', async (t) => {
  const { stock, accept, claim } = scene();
  await claim(10);
  accept('1', '2');
  t.equal(stock.clear('lake').length, 0);
  t.equal(stock.clear('crm').length, 2);
  t.equal(accept('3'), 0);
  t.same((await claim(10)).bodies, ['3']);
});
