import type { Inbox, Opening, ReceiverStore, StoredRequest } from '../store.ts';
import type { SenderKey } from '../verify/verifier.ts';
import { after } from './after.ts';

/**
 * A request may be signed by both schemes, and by each secret of a sender that rotates them. Its copies could be handled
 * again without some of the signatures, so the keys that each of them gives are all remembered.
 */
export function otherKeysOf(others: readonly SenderKey[], scopeOf: (sender: string) => string): readonly string[] {
  return [...new Set(others.map(({ sender, key }) => `${scopeOf(sender)}|${key}`))];
}

const othersOf = ({ otherKeys = [], holder }: Opening): Opening[] =>
  otherKeys.map((key) => ({ key, change: undefined, holder }));

/** A store that also begins and ends the other keys of each request. */
export function withOtherKeys(store: ReceiverStore): ReceiverStore {
  return {
    lease: store.lease,
    begin: (opening) => (opening.otherKeys === undefined ? store.begin(opening) : beginAll(store, opening)),
    renew: (opening) => (opening.otherKeys === undefined ? store.renew(opening) : renewAll(store, opening)),
    done: (opening) =>
      opening.otherKeys === undefined
        ? store.done(opening)
        : after(store.done(opening), async (isOurs) => {
            for (const other of othersOf(opening)) await (isOurs ? store.done(other) : store.release(other));
            return isOurs;
          }),
    async release(opening) {
      for (const each of [opening, ...othersOf(opening)]) await store.release(each);
    },
  };
}

async function beginAll(store: ReceiverStore, opening: Opening) {
  const begun: Opening[] = [];
  for (const each of [opening, ...othersOf(opening)]) {
    const state = await store.begin(each);
    if (state === 'new') begun.push(each);
    else {
      for (const one of begun) await store.release(one);
      return state;
    }
  }
  return 'new';
}

async function renewAll(store: ReceiverStore, opening: Opening): Promise<boolean> {
  for (const each of [opening, ...othersOf(opening)]) if (!(await store.renew(each))) return false;
  return true;
}

/** Stores requests, as `keep` does, unless another key of theirs was stored. */
export async function keepOnce(store: Inbox, requests: readonly StoredRequest[]): Promise<readonly boolean[]> {
  if (requests.every(({ otherKeys }) => otherKeys === undefined)) return store.keep(requests);
  const begun: Opening[] = [];
  const holder = crypto.randomUUID();
  try {
    const known = new Set<StoredRequest>();
    for (const request of requests) {
      for (const other of othersOf({ ...request, change: undefined, holder })) {
        const state = await store.begin(other);
        if (state === 'new') begun.push(other);
        else if (state === 'done') known.add(request);
        else throw new Error('the same request is being stored');
      }
    }
    const news = (await store.keep(requests.filter((each) => !known.has(each)))).values();
    for (const other of begun) await store.done(other);
    return requests.map((each) => !known.has(each) && (news.next().value ?? false));
  } catch (error) {
    for (const other of begun) await store.release(other);
    throw error;
  }
}
