import t from 'tap';
import { DEAD_REASONS } from '../../src/kernel/dead-reasons.ts';
import { MESSAGE_TYPES } from '../../src/message-types.ts';
import * as port from '../../src/store/port.ts';

// By its address: the pages are checked by a configuration of their own, for browsers.
const choices: Record<'KINDS' | 'OUTCOMES' | 'REASONS' | 'STATES', string[]> = await import(
  new URL('../../src/admin/pages/choices.js', import.meta.url).href
);

t.test('the pages offer every reason, kind and outcome that there is', async (t) => {
  t.same(choices.REASONS.toSorted(), DEAD_REASONS.toSorted());
  t.same(choices.KINDS.toSorted(), MESSAGE_TYPES.toSorted());
  t.same(choices.OUTCOMES.toSorted(), port.OUTCOMES.toSorted());
  t.same(choices.STATES.toSorted(), port.MESSAGE_STATES.toSorted());
});
