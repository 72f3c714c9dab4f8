import { LIVE_VERBS } from './live/verbs.ts';
import type { LiveState } from './live.ts';
import type { Records } from './port.ts';
import { READING_RECORDS, RECORDS } from './records/records.ts';
import type { Session } from './records/session.ts';

const PORTS = { records: RECORDS, live: LIVE_VERBS };

/** A call of a shared verb, as it crosses to SQLite's thread. */
export interface SharedCall {
  readonly port: keyof typeof PORTS;
  readonly name: string;
  readonly args: readonly unknown[];
}

export function sharedPorts(perform: (call: SharedCall) => Promise<unknown>): {
  readonly records: Records;
  readonly live: LiveState;
} {
  const verbsOf = (port: SharedCall['port']) =>
    Object.fromEntries(
      Object.keys(PORTS[port]).map((name) => [name, (...args: readonly unknown[]) => perform({ port, name, args })]),
    );
  return { records: verbsOf('records') as unknown as Records, live: verbsOf('live') as unknown as LiveState };
}

export function performShared(session: Session, { port, name, args }: SharedCall): Promise<unknown> {
  const verbs = PORTS[port] as Readonly<Record<string, (session: Session, ...args: readonly unknown[]) => unknown>>;
  return verbs[name]?.(session, ...args) as Promise<unknown>;
}

/** True for calls that only read, which need no sync and also work on damaged data. */
export const isReading = ({ port, name }: SharedCall): boolean => port === 'records' && READING_RECORDS.has(name);
