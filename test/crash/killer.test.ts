import t from 'tap';
import { findKiller, kill } from './killer.ts';

// `npm run test:crash` is the long version.
t.test('a delivery that ends the process is found, and every innocent delivered', (t) => findKiller(t));
t.test('three kills under full load bury nobody', (t) => kill(t, 3));
