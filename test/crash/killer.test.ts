import t from 'tap';
import { findKiller, kill } from './killer.ts';

// `npm run test:crash` is the long version. Both wait for most of their time: they do so side by side.
t.jobs = 2;
t.test('a delivery that ends the process is found, and every innocent delivered', { buffered: true }, (t) =>
  findKiller(t),
);
t.test('three kills under full load bury nobody', { buffered: true }, (t) => kill(t, 3));
