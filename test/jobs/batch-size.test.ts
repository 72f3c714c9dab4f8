import t from 'tap';
import { endOfPortion, fitting } from '../../jobs/run/batch-size.ts';

const long = 'x'.repeat(250_000);
const texts = (count: number, text: string | null) => Array.from({ length: count }, () => text);

t.test('ends a portion at its limit of texts or characters, or with the last text', async (t) => {
  t.equal(endOfPortion(texts(9, null), 2, 5), 7);
  t.equal(endOfPortion(texts(9, 'a'), 6, 5), 9);
  t.equal(endOfPortion(texts(200, long), 0, 5_000), 64);
  t.equal(endOfPortion(texts(200, long), 64, 5_000), 128);
  t.equal(endOfPortion(['x'.repeat(20_000_000), 'a'], 0, 5_000), 1, 'of one text at least');
});

t.test('counts how many texts fit at the length of the last ones', async (t) => {
  t.equal(fitting([], 5_000), 1);
  t.equal(fitting(texts(9, null), 20_000), 20_000);
  t.equal(fitting(texts(64, long), 5_000), 64);
  t.equal(fitting(['x'.repeat(20_000_000)], 5_000), 1);
});
