import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { Test } from 'tap';
import { program } from '../../helpers/programs.ts';
import type { Orders } from './crash-terms.ts';
import { randomEvents } from './events.ts';

const CHILD = program('test/live/helpers/crashing.ts');
const BATCH = 12;
/** How old timestamps are at most. */
const SPAN = 8_000;

/** A service in a process of its own. */
export function forkLife(t: Test, orders: Orders) {
  const child = fork(CHILD, [JSON.stringify(orders)], {
    stdio: ['ignore', 2, 2, 'ipc'],
    execArgv: [],
    env: { ...process.env, NODE_OPTIONS: '' },
  });
  t.teardown(() => child.kill('SIGKILL'));
  const ended = once(child, 'exit') as Promise<[number | null, string | null]>;
  const listening = once(child, 'message').then(([said]) => (said as { listening: string }).listening);
  return { process: child, ended, listening };
}

export type Life = ReturnType<typeof forkLife>;

/** Sends what some people do now. It is acknowledged or not; the log says which, and both computations read that. */
export async function feed(address: string, random: () => number, now: number, prefix: string): Promise<void> {
  const batch = randomEvents(random, now, { count: BATCH, span: SPAN, prefix });
  const headers = { authorization: `Basic ${btoa('shop:')}`, 'content-type': 'application/json' };
  const request = { method: 'POST', headers, body: JSON.stringify({ batch }) };
  await fetch(`${address}/v1/batch`, request).then(
    (response) => response.arrayBuffer(),
    () => {},
  );
}
