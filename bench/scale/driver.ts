/** One process of a contender: `driver.ts NAME {database,sink,kb}`. Each `enqueue` of the parent puts one batch in. */
import { bare, boss, graphile } from './peers.ts';
import { rollcall } from './rollcall.ts';
import { BATCH, messageMaker, type Work } from './work.ts';

const contenders = { rollcall, graphile, bare, boss };
const work = JSON.parse(process.argv[3] ?? '{}') as Work;
const driver = await contenders[process.argv[2] as keyof typeof contenders](work);
const message = messageMaker(work.kb);
let next = 0;

process.on('message', async (order: 'enqueue' | 'stop') => {
  if (order === 'enqueue') {
    next += BATCH;
    await driver.enqueue(Array.from({ length: BATCH }, (_, index) => message(next - index)));
    return;
  }
  await driver.stop();
  process.send?.('stopped');
  process.disconnect();
});
process.send?.('ready');
