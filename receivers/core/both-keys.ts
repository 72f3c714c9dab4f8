import type { Inbox, Opening, ReceiverStore, StoredRequest } from '../store.ts';

/**
 * With `signing: 'both'` a request has two keys: its id and its `X-Signature`. Both are remembered, or it could be handled
 * again without its `webhook-…` headers.
 */
const otherOf = ({ otherKey, holder }: Opening): Opening | undefined =>
  otherKey === undefined ? undefined : { key: otherKey, change: undefined, holder };

/** A store that also begins and ends the other key of each request. */
export function withOtherKeys(store: ReceiverStore): ReceiverStore {
  return {
    lease: store.lease,
    async begin(opening) {
      const other = otherOf(opening);
      const state = await store.begin(opening);
      if (state !== 'new' || other === undefined) return state;
      const otherState = await store.begin(other);
      if (otherState !== 'new') await store.release(opening);
      return otherState;
    },
    async renew(opening) {
      const other = otherOf(opening);
      return (await store.renew(opening)) && (other === undefined || (await store.renew(other)));
    },
    async done(opening) {
      const other = otherOf(opening);
      const isOurs = await store.done(opening);
      if (other !== undefined) await (isOurs ? store.done(other) : store.release(other));
      return isOurs;
    },
    async release(opening) {
      const other = otherOf(opening);
      await store.release(opening);
      if (other !== undefined) await store.release(other);
    },
  };
}

/** Stores requests, as `keep` does. The messages of a batch have no other key. */
export async function keepOnce(store: Inbox, requests: readonly StoredRequest[]): Promise<readonly boolean[]> {
  const key = requests[0]?.otherKey;
  if (key === undefined) return store.keep(requests);
  const other: Opening = { key, change: undefined, holder: crypto.randomUUID() };
  const state = await store.begin(other);
  if (state === 'done') return [false];
  if (state !== 'new') throw new Error('the same request is being stored');
  try {
    const news = await store.keep(requests);
    await store.done(other);
    return news;
  } catch (error) {
    await store.release(other);
    throw error;
  }
}
