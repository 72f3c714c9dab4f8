interface Explanation {
  readonly meaning: string;
  readonly remedy: string;
  /** Commands and places to find out more. */
  readonly look: string;
}

/** Reasons for giving up a delivery. `npm run reference` writes docs/errors.md from this list. */
export const DEAD_LETTER_REASONS = {
  refused: {
    meaning: 'The endpoint answered 4xx (other than 408, 425 and 429) or 3xx.',
    remedy:
      'Repair the receiver or the URL, then replay. If the endpoint refused everything, Rollcall sends it again automatically.',
    look: '`rollcall attempts --outcome refused`: what does the endpoint answer?',
  },
  expired: {
    meaning: 'No attempt succeeded within four hours, or the endpoint could not be trusted for that long.',
    remedy: 'Repair the endpoint, then replay.',
    look: '`rollcall endpoints list`, `rollcall attempts --outcome retry`',
  },
  destination_removed: {
    meaning: 'No process has known the destination for `delivery.removedAfter`, or a person dropped it.',
    remedy: 'Put it back and replay, or drop the letters.',
    look: '`rollcall destinations`, `rollcall audit --action destination.drop`',
  },
  undeliverable: {
    meaning:
      'The delivery cannot be carried out, or the process crashed three times while it was posted, the last time with ' +
      'nothing else in flight. The log says which.',
    remedy: 'Read the log, then replay or drop.',
    look: 'the log, `rollcall dead-letters list --reason undeliverable --body`',
  },
  /** Held out of a full queue, and queued again automatically as it drains. */
  queue_full: {
    meaning: 'The destination had as many untried deliveries as `store.maxQueued` allows.',
    remedy:
      'Nothing: Rollcall queues it again as the queue drains. If no endpoint accepts anything for four hours, it becomes `expired`.',
    look: '`rollcall endpoints list`: is one dead, or slow?',
  },
} satisfies Readonly<Record<string, Explanation>>;

export type DeadReason = keyof typeof DEAD_LETTER_REASONS;
export const DEAD_REASONS = Object.keys(DEAD_LETTER_REASONS) as readonly DeadReason[];
