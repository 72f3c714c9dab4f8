import t from 'tap';
import { Confirmations } from '../../src/deletion/confirmations.ts';
import type { NoticeConfirmation, Settlement } from '../../src/store/port.ts';
import { ManualClock } from '../helpers/clock.ts';

const ID = '00000000-0000-4000-8000-000000000001';
const settled = (messageId: string, over: object = {}, kind = 'delivered') =>
  ({
    claim: { type: 'delete', messageId, destination: 'crm', source: 'shop', ...over },
    verdict: { kind },
  }) as Settlement;

t.test('records delivered notices, and nothing else', async (t) => {
  const clock = new ManualClock();
  const written: NoticeConfirmation[] = [];
  const store = { confirmNotices: async (given: readonly NoticeConfirmation[]) => void written.push(...given) };
  const confirmations = new Confirmations({ store, clock, log: { warn() {} } });
  confirmations.settled(settled(`${ID}-0`));
  confirmations.settled(settled(`${ID}-12`, { destination: 'ads' }));
  confirmations.settled(settled(`${ID}-1`, {}, 'retry'));
  confirmations.settled(settled(`${ID}-2`, {}, 'dead'));
  confirmations.settled(settled(`${ID}-3`, { type: 'track' }));
  confirmations.settled(settled('somebody else'));
  await confirmations.flush();
  t.same(written, [
    { regulation: ID, destination: 'crm', notice: '0 shop', at: clock.now() },
    { regulation: ID, destination: 'ads', notice: '12 shop', at: clock.now() },
  ]);
});

t.test('keeps confirmations while the store is not available', async (t) => {
  const clock = new ManualClock();
  const written: string[] = [];
  let isAway = true;
  const store = {
    confirmNotices: async (given: readonly NoticeConfirmation[]) => {
      if (isAway) throw new Error('away');
      written.push(...given.map(({ notice }) => notice));
    },
  };
  const confirmations = new Confirmations({ store, clock, log: { warn() {} } });
  confirmations.settled(settled(`${ID}-0`));
  await clock.timer(5_000);
  confirmations.settled(settled(`${ID}-1`));
  await confirmations.flush();
  isAway = false;
  clock.advance(5_000);
  await confirmations.flush();
  t.same(written, ['0 shop', '1 shop']);
});
