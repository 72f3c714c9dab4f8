import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { eventsOf } from '../../../jobs/engines/duckdb/event-log.ts';
import { openSession } from '../../../jobs/engines/duckdb/session.ts';
import { eventLogFor } from '../../../jobs/event-log-access.ts';
import type { BucketConfig } from '../../../src/config/config.ts';
import { EventLogKeeper } from '../../../src/events/keeper.ts';
import { type Clock, systemClock } from '../../../src/kernel/clock.ts';
import type { MessageType } from '../../../src/message-types.ts';
import type { FileLog } from '../../../src/store/event-log.ts';
import { filesOf } from '../../../src/store/events/open-files.ts';
import { namedViews } from '../../../src/store/events/views.ts';
import { openStore } from '../../../src/store/open.ts';
import type { NewMessage, Store } from '../../../src/store/port.ts';

export const START = Date.parse('2026-03-01T12:00:00.000Z');
const DAY = 86_400_000;

/** A SQLite store with an event log, in a world whose time stands still until it is moved. */
export interface KeptLog {
  readonly folder: string;
  readonly store: Store;
  readonly log: FileLog;
  readonly keeper: EventLogKeeper;
  readonly warnings: object[];
  advance(ms: number): void;
  now(): number;
  /** One more keeper, as of another process. */
  another(): EventLogKeeper;
  add(...events: readonly Given[]): Promise<void>;
  /** Rows of a query over the views. */
  query(sql: string): Promise<unknown[][]>;
  /** Files on the disk, within the log's folder. */
  onDisk(): string[];
  /** Those files that hold these bytes. */
  holding(bytes: string): string[];
}

interface KeptLogOptions {
  readonly keep?: number;
  readonly folder?: string;
  readonly bucket?: BucketConfig;
}

interface Given {
  readonly id: string;
  readonly type?: MessageType;
  readonly source?: string;
  readonly [field: string]: unknown;
}

export async function keptLog(
  t: Test,
  { keep = 400 * DAY, folder = t.testdir({}), ...place }: KeptLogOptions = {},
): Promise<KeptLog> {
  let now = START;
  const clock: Clock = { ...systemClock, now: () => now, monotonic: () => now, uptime: () => now };
  const store = await openStore({ url: `sqlite:${join(folder, 'rollcall.db')}`, maxQueued: 1_000 }, clock);
  t.teardown(() => store.close());
  if (store.events.kind !== 'files') throw new Error('no log in files');
  const log = store.events;
  const path = join(folder, 'events');
  const eventLog = { keep, path, sources: null, ...place };
  const warnings: object[] = [];
  const another = () =>
    new EventLogKeeper({
      store,
      live: store.live,
      clock,
      files: filesOf(eventLog),
      keep: () => keep,
      log: { info() {}, warn: (details) => void warnings.push(details) },
    });
  const engine = { type: 'duckdb', path: ':memory:', memoryLimit: null, threads: 1, concurrency: 1 } as const;
  const onDisk = () => globSync('**/*', { cwd: path, withFileTypes: true }).filter((file) => file.isFile());
  return {
    folder: path,
    store,
    log,
    keeper: another(),
    another,
    warnings,
    now: () => now,
    advance(ms) {
      now += ms;
    },
    add: async (...events) => {
      const messages = events.map(({ id, type = 'track', source = 'shop', ...fields }): NewMessage => {
        const at = new Date(now).toISOString();
        const body = { version: 1, type, messageId: id, timestamp: at, receivedAt: at, ...fields };
        const userId = (fields['userId'] ?? fields['User ID'] ?? null) as string | null;
        const rest = { destinations: [], lane: 'live', conflict: null } as const;
        return { source, messageId: id, type, userId, body: JSON.stringify(body), ...rest };
      });
      await store.accept({ messages, step: null, logged: true });
    },
    async query(sql) {
      const session = await openSession({ path: ':memory:', readOnly: false, settings: {}, patience: 0, clock });
      try {
        const config = { eventLog, store: { url: 'sqlite:', maxQueued: 1 } };
        const { eventLog: logged } = eventLogFor(engine, config, store);
        if (!logged) throw new Error('no log');
        await eventsOf(session, logged).show(namedViews(sql));
        return await session.rows(sql);
      } finally {
        await session.close();
      }
    },
    onDisk: () => onDisk().map((file) => join(file.parentPath, file.name).slice(path.length + 1)),
    holding: (bytes) =>
      onDisk()
        .map((file) => join(file.parentPath, file.name))
        .filter((file) => readFileSync(file).includes(bytes)),
  };
}
