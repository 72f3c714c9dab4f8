/** Other work that takes a core: it hashes more memory than caches hold close by. */
import { createHash } from 'node:crypto';

const memory = Buffer.alloc(8 * 1024 * 1024, 'x');
process.send?.('ready');
setImmediate(() => {
  for (;;) createHash('sha1').update(memory).digest();
});
