import t from 'tap';
import { systemClock } from '../../src/kernel/clock.ts';
import { loggingService, send } from '../events/helpers/logging-app.ts';

t.test('reads the log less often while nothing happens, and as before once something does', async (t) => {
  const service = loggingService(t);
  let waits: number[] = [];
  let waited = () => {};
  Object.assign(service.clock, {
    sleep(ms: number, signal?: AbortSignal) {
      waits.push(ms);
      waited();
      return systemClock.sleep(Math.min(ms, 5), signal);
    },
  });
  /** Resolves to the number of waits from a short one to a long one. */
  const slowed = () =>
    new Promise<number>((resolve) => {
      waits = [];
      waited = () => {
        const from = waits.findIndex((ms) => ms < 120);
        const steps = waits.slice(from).findIndex((ms) => ms > 300);
        if (from !== -1 && steps !== -1) resolve(steps);
      };
    });
  const app = await service.open([], {
    audiences: [{ name: 'Buyers', source: 'personas', live: true, when: { performed: 'Order' } }],
  });
  const atFirst = slowed();
  await app.start({ collect: true, schedules: true });
  t.ok((await atFirst) > 5, 'by and by');
  const again = slowed();
  await send(app, [{ type: 'track', event: 'Order', userId: 'ann', messageId: 'm1' }], 'personas-key');
  t.ok((await again) > 5);
  t.ok(Math.max(...waits) <= 500, 'half a second at most');
});
