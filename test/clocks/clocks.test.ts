import t from 'tap';
import { skipWithoutFaketime } from './faketime.ts';
import { setClocks } from './scenario.ts';

const HOUR = 3_600;

// `npm run test:crash` is the long version.
t.test(
  'a service whose clock is set back and forward goes on, and nothing expires',
  { skip: skipWithoutFaketime },
  (t) => setClocks(t, [-HOUR, 5 * HOUR]),
);

t.test(
  'a service whose clock runs a twentieth too fast, and is set right again and again, goes on',
  { skip: skipWithoutFaketime },
  (t) => setClocks(t, [-1, -1], { speed: 1.05 }),
);
