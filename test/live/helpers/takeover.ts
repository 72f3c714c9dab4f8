import { setTimeout } from 'node:timers/promises';
import type { Test } from 'tap';
import type { Orders } from './crash-terms.ts';
import { forkLife, type Life } from './fork-life.ts';
import { startReceiver } from './receiver.ts';

/**
 * Two processes on one store, of which the older one is killed, again and again: of every two in a row one led.
 * Resolves to how long it took each time, in milliseconds, until a receiver heard of what somebody did after the kill.
 */
export async function takeovers(t: Test, url: string, rounds: number): Promise<readonly number[]> {
  const receiver = await startReceiver(t);
  const orders: Orders = {
    folder: t.testdir({}),
    url,
    life: 0,
    edition: 0,
    ahead: 0,
    receiver: receiver.url,
    crash: null,
  };
  const heard = async (user: string) => {
    while (!(user in receiver.state('once'))) await setTimeout(10);
  };
  const lives: Life[] = [];
  const join = async () => {
    const life = forkLife(t, orders);
    lives.push(life);
    return life.listening;
  };
  let address = await join();
  await order(address, 'first');
  await heard('first');
  const times: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    address = await join();
    const [oldest] = lives.splice(0, 1);
    oldest?.process.kill('SIGKILL');
    await oldest?.ended;
    const killedAt = performance.now();
    await order(address, `user-${round}`);
    await heard(`user-${round}`);
    times.push(Math.round(performance.now() - killedAt));
  }
  return times;
}

async function order(address: string, userId: string): Promise<void> {
  const headers = { authorization: `Basic ${btoa('shop:')}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ event: 'Order', userId, properties: { total: 1, item: 'a' } });
  const { status } = await fetch(`${address}/v1/track`, { method: 'POST', headers, body });
  if (status !== 200) throw new Error(`${status}`);
}
