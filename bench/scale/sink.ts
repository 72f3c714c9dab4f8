import { startSink } from '../sink.ts';
import { BATCH } from './work.ts';

/** Tells each time that a batch of requests has come. */
let seen = 0;
startSink(() => {
  seen += 1;
  if (seen % BATCH === 0) process.send?.('batch');
});
