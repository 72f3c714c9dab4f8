import { createServer } from 'node:http';

/** Answers 200 to everything; tells its port, and when the last of `expected` requests had come. */
const expected = Number(process.argv[2]);
let seen = 0;

const server = createServer((request, response) => {
  request.resume();
  request.on('end', () => {
    response.end();
    seen += 1;
    if (seen === expected) process.send?.({ at: Date.now() });
  });
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  process.send?.(typeof address === 'object' ? address?.port : undefined);
});
