import t from 'tap';
import { lossRound } from './losses.ts';

// `npm run test:crash` has all losses.
t.test('ends with an error when the store is removed under load', (t) =>
  lossRound(t, 'all its files are removed', 'under load'),
);
t.test('ends with an error when another file takes the place of an idle store', (t) =>
  lossRound(t, 'another file takes its place', 'when idle'),
);
t.test('stops with an error when the store was removed just before', (t) =>
  lossRound(t, 'all its files are removed', 'just before a stop'),
);
