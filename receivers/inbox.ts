import { within } from './clock.ts';
import type { Accepted, Core } from './core.ts';
import { type DeliveryFields, OpenDelivery } from './delivery.ts';
import { type Parsed, parseMessage } from './messages.ts';
import type { Awaitable, Log, ReceiverClock } from './options.ts';
import * as reply from './reply.ts';
import type { Inbox } from './store.ts';

/** Waits between the tries of a stored message, in milliseconds; then it is given up. */
const waits = [1000, 5000, 30_000, 120_000, 600_000];

interface Parts {
  store: Inbox;
  clock: ReceiverClock;
  drain: number;
  report: Core['report'];
  handle(parsed: Parsed, delivery: OpenDelivery): Awaitable<reply.Reply>;
}

type StoredFields = DeliveryFields & { key: string };

/** Stores first, answers, and runs the handlers afterwards, trying again when they fail. */
export interface InboxWorker {
  accept(request: Accepted, log: Log): Promise<reply.Reply>;
  resume(log: Log): Promise<void>;
  close(): Promise<void>;
}

export function createInboxWorker({ store, clock, drain, report, handle }: Parts): InboxWorker {
  const open = new Set<Promise<void>>();
  const deliveries = new Set<OpenDelivery>();
  const cancels = new Set<() => void>();
  let closing = false;

  async function attempt(fields: StoredFields, parsed: Parsed, tries: number, log: Log): Promise<void> {
    const delivery = new OpenDelivery(fields);
    deliveries.add(delivery);
    try {
      await handle(parsed, delivery);
      await store.done(fields.key);
    } catch (error) {
      const gaveUp = tries >= waits.length;
      const message = parsed.ok ? parsed.message : undefined;
      report(error, { stage: 'handler', late: true, gaveUp, message, delivery }, log);
      if (gaveUp) await store.giveUp(fields.key);
      else tryLater(fields, parsed, tries, log);
    } finally {
      deliveries.delete(delivery);
    }
  }

  function run(fields: StoredFields, parsed: Parsed, tries: number, log: Log): void {
    const job = attempt(fields, parsed, tries, log).catch((error) =>
      report(error, { stage: 'store', late: true }, log),
    );
    open.add(job);
    void job.then(() => open.delete(job));
  }

  function tryLater(fields: StoredFields, parsed: Parsed, tries: number, log: Log): void {
    if (closing) return;
    const cancel = clock.after(waits[tries] as number, () => {
      cancels.delete(cancel);
      run(fields, parsed, tries + 1, log);
    });
    cancels.add(cancel);
  }

  return {
    async accept(request, log) {
      const parsed = parseMessage(request.rawBody);
      if (!parsed.ok) {
        try {
          return await handle(parsed, new OpenDelivery(request));
        } catch (error) {
          report(error, { stage: 'invalid' }, log);
          return reply.failed;
        }
      }
      const key = request.key ?? crypto.randomUUID();
      const { rawBody, url, secret } = request;
      try {
        const state = await store.begin(key, { body: rawBody, url, secret });
        if (state !== 'new') return reply.duplicate;
      } catch (error) {
        report(error, { stage: 'store' }, log);
        return reply.storeFailed;
      }
      run({ rawBody, url, secret, key }, parsed, 0, log);
      return reply.stored;
    },
    async resume(log) {
      for (const { key, body, url, secret } of await store.pending()) {
        run({ rawBody: body, url, secret, key }, parseMessage(body), 0, log);
      }
    },
    async close() {
      closing = true;
      for (const cancel of cancels) cancel();
      await within(clock, drain, Promise.all(open), () => []);
      for (const delivery of deliveries) delivery.expire();
    },
  };
}
