import type { FileLog } from '../event-log.ts';
import type { StoreThread } from './store-thread.ts';

/** The event log, as far as it is in the database. */
export function fileLog(thread: StoreThread): FileLog {
  return {
    kind: 'files',
    state: () => thread.call('eventState', undefined),
    firstDay: () => thread.call('eventFirstDay', undefined),
    tail: (after, upTo) => thread.call('eventTail', { after, upTo }),
    unread: (after) => thread.call('eventUnread', { after }),
    willWrite: (fence, names) => thread.call('willWrite', { fence, names }),
    seal: (fence, upTo, files) => thread.call('seal', { fence, upTo, files }),
    replace: (fence, gone, files) => thread.call('replaceFiles', { fence, gone, files }),
    leftovers: () => thread.call('leftovers', undefined),
    deletions: () => thread.call('deletionsInLog', undefined),
    deleted: (last) => thread.call('deletedInLog', { last }),
    removed: (names) => thread.call('removed', { names }),
  };
}
