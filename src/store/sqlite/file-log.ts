import type { FileLog } from '../event-log.ts';
import type { StoreThread } from './thread/store-thread.ts';

/** The part of the event log that is in the database. */
export function fileLog(thread: StoreThread): FileLog {
  return {
    kind: 'files',
    state: () => thread.call('eventState', []),
    firstDay: () => thread.call('eventFirstDay', []),
    tail: (...given) => thread.call('eventTail', given),
    unread: (...given) => thread.call('eventUnread', given),
    forgetUnread: (...given) => thread.call('forgetUnread', given),
    names: (...given) => thread.call('tailNames', given),
    willWrite: (...given) => thread.call('willWrite', given),
    seal: (...given) => thread.call('seal', given),
    replace: (...given) => thread.call('replaceFiles', given),
    leftovers: () => thread.call('leftovers', []),
    deletions: () => thread.call('deletionsInLog', []),
    deleted: (...given) => thread.call('deletedInLog', given),
    removed: (...given) => thread.call('removed', given),
  };
}
