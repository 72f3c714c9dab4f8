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
