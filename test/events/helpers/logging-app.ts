import { join } from 'node:path';
import { pino } from 'pino';
import type { Test } from 'tap';
import { openEngine } from '../../../jobs/engines/open.ts';
import { App } from '../../../src/app.ts';
import { parseConfig } from '../../../src/config/load.ts';
import { type Clock, systemClock } from '../../../src/kernel/clock.ts';
import { ADMIN } from '../../helpers/admin.ts';
import { isOnPostgres, unsharedPostgres } from '../../helpers/store.ts';

export const AUTHORIZATION = `Basic ${btoa('key:')}`;

export interface Audience {
  readonly name: string;
  readonly sql?: string;
  readonly when?: object;
}

/** A service with an event log, whose store and engine are either SQLite and DuckDB or one Postgres. */
export interface LoggingService {
  readonly folder: string;
  readonly url: string;
  /** Wall clock and steady clock together. */
  advance(ms: number): void;
  /** Sets the wall clock alone: ahead by this, in milliseconds, until it is set again. */
  setAhead(ms: number): void;
  readonly clock: Clock;
  /** The configuration that `open` has parsed. */
  config(audiences?: readonly Audience[], changes?: object): object;
  /** As of one more process on the same store; closed with the test. */
  open(audiences?: readonly Audience[], changes?: object): Promise<App>;
}

export const START = Date.parse('2026-03-01T12:00:00.000Z');

export function loggingService(t: Test): LoggingService {
  const folder = t.testdir({});
  const url = isOnPostgres ? unsharedPostgres() : `sqlite:${join(folder, 'rollcall.db')}`;
  let passed = 0;
  let ahead = 0;
  const began = systemClock.monotonic();
  const steady = () => systemClock.monotonic() + passed;
  const clock: Clock = {
    ...systemClock,
    now: () => START + ahead + Math.floor(steady() - began),
    monotonic: steady,
    uptime: () => systemClock.uptime() + passed,
  };
  const config = (audiences: readonly Audience[] = [], changes = {}) => ({
    store: url,
    listen: { port: 0 },
    admin: ADMIN,
    sources: [
      { id: 'shop', writeKey: 'key' },
      { id: 'personas', writeKey: 'personas-key' },
    ],
    eventLog: { path: './events' },
    engines: { lake: isOnPostgres ? { type: 'postgres', url } : { type: 'duckdb', path: './audiences.duckdb' } },
    audiences: audiences.map((audience) => ({ source: 'personas', guard: { allowEmpty: true }, ...audience })),
    ...changes,
  });
  return {
    folder,
    url,
    clock,
    config,
    advance: (ms) => {
      passed += ms;
    },
    setAhead: (ms) => {
      ahead = ms;
    },
    async open(audiences = [], changes = {}) {
      const parsed = parseConfig(JSON.stringify(config(audiences, changes)), {
        file: 'rollcall.yaml',
        folder,
        env: {},
      });
      const app = await App.create(parsed, {
        log: pino({ level: process.env['LOGLEVEL'] ?? 'silent' }, pino.destination(2)),
        clock,
      });
      const { lake } = parsed.engines;
      if (lake?.type === 'duckdb') {
        // To open and close its file takes DuckDB longer than most runs of a test: it stays open until the test ends.
        const engine = await openEngine(lake, { folder, clock });
        t.teardown(() => engine.close());
      }
      t.teardown(() => app.close());
      return app;
    },
  };
}

/** Sends a batch as a client would. */
export async function send(app: App, batch: readonly object[], key = 'key'): Promise<void> {
  const response = await fetch(`${app.address}/v1/batch`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`${key}:`)}`, 'content-type': 'application/json' },
    body: JSON.stringify({ batch }),
  });
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
}

/** Syncs, and resolves to the members that each audience then has. */
export async function membersOf(app: App, key: string): Promise<number> {
  const [report] = await app.sync.run([key]);
  if (!report || report.error) throw report?.error ?? new Error(`no report of ${key}`);
  return report.runs.at(-1)?.members ?? -1;
}
