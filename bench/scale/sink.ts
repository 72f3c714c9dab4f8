import { createServer } from 'node:http';
import { BATCH } from './work.ts';

/** Answers 200 to everything; tells its port, and then each time that a batch of requests has come. */
let seen = 0;

const server = createServer((request, response) => {
  request.resume();
  request.on('end', () => {
    response.end();
    seen += 1;
    if (seen % BATCH === 0) process.send?.('batch');
  });
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  process.send?.(typeof address === 'object' ? address?.port : undefined);
});
