import { startSink } from '../sink.ts';

let taken = 0;
startSink(() => {
  taken += 1;
});
process.on('message', () => process.send?.(taken));
