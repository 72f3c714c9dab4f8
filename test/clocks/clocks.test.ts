import t from 'tap';
import { skipWithoutFaketime } from './faketime.ts';
import { setClocks } from './scenario.ts';

const HOUR = 3_600;

// `npm run test:crash` is the long version.
t.test(
  'continues without expiring anything while its clock is set back and forward',
  { skip: skipWithoutFaketime },
  (t) => setClocks(t, [-HOUR, 5 * HOUR]),
);

t.test(
  'continues while its clock runs a twentieth too fast and is corrected again and again',
  { skip: skipWithoutFaketime },
  (t) => setClocks(t, [-1, -1], { speed: 1.05 }),
);
