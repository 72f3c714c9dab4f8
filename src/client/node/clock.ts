import { randomUUID } from 'node:crypto';
import type { ClientClock } from '../clock.ts';

export const systemClock: ClientClock = {
  now: () => Date.now(),
  random: () => Math.random(),
  uuid: () => randomUUID(),
  after(ms, callback, keepAlive = false) {
    const timer = setTimeout(callback, ms);
    if (!keepAlive) timer.unref();
    return () => clearTimeout(timer);
  },
};
