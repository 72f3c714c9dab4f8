import t from 'tap';
import { findKiller, kill } from './killer.ts';

// `npm run test:crash` is the long version. Both wait for most of their time: they do so side by side.
t.jobs = 2;
t.test('finds a delivery that ends the process, and delivers every innocent one', { buffered: true }, (t) =>
  findKiller(t),
);
t.test('buries no delivery in three kills under full load', { buffered: true }, (t) => kill(t, 3));
