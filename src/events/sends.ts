import chunk from 'lodash/chunk.js';
import type { Destination } from '../destination.ts';
import type { Clock } from '../kernel/clock.ts';
import { RollcallError } from '../kernel/errors.ts';
import { failpoint } from '../kernel/failpoint.ts';
import { keepLease } from '../kernel/keep-lease.ts';
import type { Message } from '../message.ts';
import { CLIENT_TYPES } from '../message-types.ts';
import { anonymousForm, bodyWithout } from '../store/deleted-ids.ts';
import { folderFiles, type LogFiles } from '../store/events/files.ts';
import {
  type AcceptResult,
  type EventSend,
  isClosed,
  type Lane,
  type PlanStep,
  type SendOrder,
  type SendStatus,
  type Store,
} from '../store/port.ts';
import { LogReader, type LogSelection } from './log-reader.ts';

interface SendsParts {
  readonly store: Store;
  readonly accept: (
    source: string,
    messages: readonly Message[],
    options: { readonly lane: Lane; readonly to: readonly string[]; readonly step: PlanStep },
  ) => Promise<AcceptResult>;
  readonly destinations: () => readonly Destination[];
  /** True if the integrations of a message let it go to destinations. */
  readonly isEnabledBy: (integrations: Message['integrations']) => boolean;
  readonly clock: Clock;
  readonly log: { warn(details: object, message: string): void; info(details: object, message: string): void };
  /** Null if no log is kept. */
  readonly files: LogFiles | null;
  readonly onQueued: (destination: string, events: number) => void;
  /** The steady clock's time when live messages last came in. */
  readonly lastLive: () => number;
}

interface QueuedPart {
  /** The destination. */
  readonly name: string;
  /** The deletion epoch up to which the log has nothing of deleted users. */
  readonly settled: number;
  readonly step: Omit<PlanStep, 'epoch'>;
}

/** Milliseconds between two looks for something to send, and for a send that another process has begun. */
const LOOK_EVERY = { open: 1_000, none: 5_000 };
/** The most events of a send that are queued and undelivered. */
const AHEAD = 50_000;
/** Events accepted at once: accepts of live traffic wait for them. */
const BATCH = 50;
/** Milliseconds after a live message in which each batch takes so long: five hundred events a second delay few of them. */
const LIVE = { for: 1_000, batch: 100 };

/** Sends past events to a destination, in steps that any process may take, one at a time for each send. */
export class EventSends {
  private readonly parts: SendsParts;
  private readonly reader: LogReader;
  private readonly stopping = new AbortController();
  private isStarted = false;
  private cancelLook = () => {};
  private work: Promise<void> = Promise.resolve();

  constructor(parts: SendsParts) {
    this.parts = parts;
    this.reader = new LogReader(parts.store.events, parts.files ?? folderFiles(''), parts.clock);
  }

  /** Check now, then again and again. */
  start(): void {
    const { clock, files } = this.parts;
    if (files === null) return;
    this.isStarted = true;
    this.cancelLook();
    this.work = this.work
      .then(() => this.look())
      .then((pause) => {
        this.cancelLook();
        if (!this.stopping.signal.aborted)
          this.cancelLook = clock[pause === 0 ? 'after' : 'roughly'](pause, () => this.start());
      });
  }

  async stop(): Promise<void> {
    this.isStarted = false;
    this.stopping.abort();
    this.cancelLook();
    await this.work;
  }

  /** Count the events of an order. Users who are suppressed count, but get nothing. */
  async count(order: SendOrder): Promise<number> {
    const counts = await this.reader.count(selectionOf(order, this.destination(order)));
    const isEnabled = (text: string | null) => this.parts.isEnabledBy(text === null ? null : JSON.parse(text));
    return counts.reduce((sum, [integrations, events]) => sum + (isEnabled(integrations) ? events : 0), 0);
  }

  /** Store an order, for any process that delivers. */
  async begin(order: SendOrder): Promise<EventSend> {
    const { store, clock } = this.parts;
    const startedAt = clock.now();
    // Later events are not all in the log yet.
    const given = { ...order, until: Math.min(order.until, startedAt) };
    const send: EventSend = {
      ...given,
      ...{ id: `${startedAt.toString(36)}-${clock.token(4)}`, state: 'sending' as const },
      ...{ total: await this.count(given), sent: 0, cursor: null, startedAt, finishedAt: null },
    };
    await store.addSend(send);
    if (this.isStarted) this.start();
    return send;
  }

  /** @throws RollcallError `not_found` */
  async cancel(id: string): Promise<SendStatus> {
    const { store, clock } = this.parts;
    await this.find(id);
    await store.endSend(id, 'cancelled', clock.now());
    return this.find(id);
  }

  /** @throws RollcallError `not_found` */
  async find(id: string): Promise<SendStatus> {
    const send = await this.parts.store.send(id);
    if (send === null) throw new RollcallError('not_found', `There is no send ${id}.`);
    return this.status(send);
  }

  async list(filter: Parameters<Store['sends']>[0]): Promise<readonly SendStatus[]> {
    return Promise.all((await this.parts.store.sends(filter)).map((send) => this.status(send)));
  }

  private async status(send: EventSend): Promise<SendStatus> {
    const waitsFor = send.state === 'sending' ? await this.waitsFor(send) : null;
    return { send, deliveries: await this.parts.store.runProgress(send.id), waitsFor };
  }

  /** Events that are queued for a dead or refusing endpoint would become dead letters after four hours. */
  private async waitsFor({ destination: name }: Pick<SendOrder, 'destination'>): Promise<string | null> {
    const { store, destinations } = this.parts;
    const destination = destinations().find((each) => each.name === name);
    if (!destination) return 'The destination is not in the configuration.';
    if (!destination.enabled) return 'The destination is disabled.';
    const closed = new Set((await store.endpoints()).filter(isClosed).map(({ endpoint }) => endpoint));
    const isIdle = destination.endpoints.every(({ id }) => closed.has(id));
    return isIdle ? 'No endpoint of the destination takes anything.' : null;
  }

  /** @throws RollcallError `not_found` */
  private destination({ destination: name }: Pick<SendOrder, 'destination'>): Destination {
    const { files, destinations } = this.parts;
    if (files === null)
      throw new RollcallError('not_found', 'No event log is kept: see eventLog in docs/event-log.md.');
    const found = destinations().find((each) => each.name === name);
    if (!found) throw new RollcallError('not_found', `There is no destination ${name}.`);
    return found;
  }

  /** Take a step of each open send. Resolves to milliseconds until the next look. */
  private async look(): Promise<number> {
    const { store, log } = this.parts;
    let hasMoved = false;
    const open = await store.sends({ open: true, limit: 100 }).catch(() => []);
    for (const send of open) {
      if (this.stopping.signal.aborted) break;
      try {
        if ((await this.waitsFor(send)) === null) hasMoved = (await this.step(send)) || hasMoved;
      } catch (error) {
        if (this.stopping.signal.aborted) break;
        log.warn({ err: error, send: send.id, destination: send.destination }, 'Could not send past events; retrying');
      }
    }
    if (hasMoved) return 0;
    return open.length > 0 ? LOOK_EVERY.open : LOOK_EVERY.none;
  }

  /** Queue the next events of a send. Resolves to false if it has to wait, or another process works on it. */
  private async step({ id, destination: name }: EventSend): Promise<boolean> {
    const { store, clock, log } = this.parts;
    const most = Math.min(AHEAD, Math.max(1, Math.floor(store.maxQueued / 2)));
    const room = await this.room(id, name, most);
    if (room < most / 2) return false;
    const lease = await keepLease(store, clock, `send:${id}`);
    if (lease === null) return false;
    try {
      const send = await store.send(id);
      if (send?.state !== 'sending') return false;
      const { settled } = await store.deletions(null);
      const next = await this.reader.next(
        selectionOf(send, this.destination(send)),
        send.cursor,
        Math.min(room, Math.ceil(most / 2)),
      );
      if (next.length === 0) {
        await store.endSend(id, 'done', clock.now());
        log.info({ send: id, destination: name, events: send.sent }, 'All past events are queued');
        return true;
      }
      let after = send.cursor;
      for (const part of chunk(next, BATCH)) {
        this.stopping.signal.throwIfAborted();
        // Live messages have come in the meantime.
        if ((await this.room(id, name, most)) < part.length) break;
        const startedAt = clock.monotonic();
        const { source, cursor } = part.at(-1) as (typeof part)[number];
        const wanted = part.map(({ message }) => message()).filter((each) => this.parts.isEnabledBy(each.integrations));
        await this.queue(source, wanted, { name, settled, step: { run: id, fence: lease.fence, after, cursor } });
        failpoint('events_sent');
        after = cursor;
        if (clock.monotonic() > this.parts.lastLive() + LIVE.for) continue;
        await clock.sleep(startedAt + LIVE.batch - clock.monotonic(), this.stopping.signal);
        if ((await store.send(id))?.state !== 'sending') break;
      }
      return after !== send.cursor;
    } finally {
      await lease.release();
    }
  }

  /** Places for this send: it leaves half of the queue to others. */
  private async room(id: string, name: string, most: number): Promise<number> {
    const { store } = this.parts;
    const { deliveries, delivered, dead, superseded } = await store.runProgress(id);
    const { queued = 0, heldOut = 0 } = (await store.backlog()).find(({ destination }) => destination === name) ?? {};
    if (heldOut > 0) return 0;
    return Math.min(Math.ceil(store.maxQueued / 2) - queued, most - (deliveries - delivered - dead - superseded));
  }

  /** Accept events without those of users who were deleted since the log was read, or are being deleted. */
  private async queue(
    source: string,
    messages: readonly Message[],
    { name, settled, step }: QueuedPart,
  ): Promise<void> {
    const { store, accept, onQueued } = this.parts;
    for (;;) {
      const { epoch } = await store.deletions(null);
      const left = epoch > settled ? await this.withoutDeleted(source, messages, settled) : messages;
      try {
        const { accepted } = await accept(source, left, { lane: 'backfill', to: [name], step: { ...step, epoch } });
        onQueued(name, accepted);
        return;
      } catch (error) {
        if (!(error instanceof RollcallError && error.code === 'epoch_moved')) throw error;
      }
    }
  }

  private async withoutDeleted(source: string, messages: readonly Message[], since: number): Promise<Message[]> {
    const bodies = messages.map(({ body }) => JSON.parse(body) as Record<string, string | undefined>);
    const among = async (forms: readonly string[]) => new Set(await this.parts.store.excluded(forms, source, since));
    const idsAt = (...keys: string[]) => [...new Set(bodies.flatMap((body) => keys.flatMap((key) => body[key] ?? [])))];
    const users = await among(idsAt('userId', 'User ID', 'Previous ID'));
    const anonymous = idsAt('anonymousId', 'Previous ID');
    const forms = await among(anonymous.map(anonymousForm));
    const gone = { users, anonymous: new Set(anonymous.filter((id) => forms.has(anonymousForm(id)))) };
    return messages.flatMap((message) => {
      const body = bodyWithout(message.body, gone);
      return body === null ? [] : [{ ...message, body }];
    });
  }
}

/** The part of the log that an order is about, as the destination is configured now. */
function selectionOf(
  { since, until, type, event, source }: SendOrder,
  { sources, wants = {} }: Destination,
): LogSelection {
  const types = CLIENT_TYPES.filter(
    (each) =>
      (wants.types?.includes(each) ?? true) && (type === null || each === type) && (event === null || each === 'track'),
  );
  const names =
    event === null ? (wants.events ?? null) : [event].filter((each) => wants.events?.includes(each) ?? true);
  return { since, until, types, events: names, sources: sources.filter((each) => source === null || each === source) };
}
