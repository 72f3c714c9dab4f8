import type { Platform } from '../platform.ts';
import { BufferBatch } from './batch.ts';
import { systemClock } from './clock.ts';
import { guard, unguard } from './exit.ts';
import { log } from './log.ts';
import { Spool } from './spool.ts';
import { HttpTransport } from './transport.ts';

/** Node and compatible runtimes. */
export const node: Platform = {
  clock: systemClock,
  log,
  defaultEndpoint: () => process.env['ROLLCALL_ENDPOINT'] || 'http://127.0.0.1:8080',
  byteLength: (text) => Buffer.byteLength(text),
  newBatch: (since, _, spent) => new BufferBatch(since, spent instanceof BufferBatch ? spent.recycle() : undefined),
  transport: (writeKey, settings) => new HttpTransport(writeKey, settings),
  openSpool(folder, writeKey, now) {
    const keeper = new Spool(folder, writeKey);
    return { keeper, ...keeper.adopt(now) };
  },
  guard,
  unguard,
  warn(text, isEnding = false) {
    // A warning is printed on the next tick, and an exiting process has none.
    if (isEnding) console.error(`RollcallWarning: ${text}`);
    else process.emitWarning(text, 'RollcallWarning');
  },
};
