import t from 'tap';
import { findKiller, kill } from './killer.ts';

// `npm run test:crash` is the long version. Both wait for most of their time: they do so side by side.
t.jobs = 2;
const parallel = { buffered: true };
t.test('a delivery that ends the process is found, and every innocent delivered', parallel, (t) => findKiller(t));
t.test('three kills under full load bury nobody', parallel, (t) => kill(t, 3));
