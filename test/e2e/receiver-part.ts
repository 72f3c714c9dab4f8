import Fastify from 'fastify';
import { receiver } from '../../receivers/index.ts';
import { answer } from './part.ts';

/** The app's state from verified messages. */
export interface Learned {
  readonly url: string;
  /** `key → user → value`, without those who left. */
  readonly state: ReadonlyMap<string, ReadonlyMap<string, unknown>>;
  readonly identifies: number;
  readonly falses: number;
}

export interface ReceiverQuestion {
  readonly secret: string;
}

const state = new Map<string, Map<string, unknown>>();
let identifies = 0;
let falses = 0;
let url: string | null = null;

function learn(userId: string, traits: Readonly<Record<string, unknown>>): void {
  identifies += 1;
  for (const [key, value] of Object.entries(traits)) {
    const users = state.get(key) ?? new Map<string, unknown>();
    state.set(key, users);
    if (value === false) falses += 1;
    if (value === false || value === null) users.delete(userId);
    else users.set(userId, value);
  }
}

async function listen(secret: string): Promise<string> {
  const app = Fastify();
  const identify = (message: { readonly userId?: string | null | undefined; readonly traits?: object | undefined }) =>
    learn(message.userId ?? '', { ...message.traits });
  await app.register(receiver, { path: '/hooks', secret, on: { identify } });
  return `${await app.listen({ port: 0, host: '127.0.0.1' })}/hooks`;
}

answer<ReceiverQuestion, Learned>(async ({ secret }) => {
  url ??= await listen(secret);
  return { url, state, identifies, falses };
});
