import { MESSAGE_TYPES } from '../../../message-types.ts';
import { type AcceptRequest, type AcceptResult, type Claim, LANES, type NewMessage, NO_MARKS } from '../../port.ts';
import { seenKey } from '../../seen-key.ts';
import { bool, int2, int4, storable, text, uuid } from '../arrays.ts';
import type { StoreContext } from '../context.ts';
import { logColumns } from '../events/event-writing.ts';

interface Keyed {
  /** Index of the message's request. */
  readonly request: number;
  readonly key: string;
  readonly message: NewMessage;
}

/** One message for one destination. */
interface BatchRow extends Keyed {
  readonly destination: string;
}

/** The messages of a statement, one per id. */
export class AcceptBatch {
  readonly rows: readonly BatchRow[];
  private readonly messages: readonly Keyed[];
  private readonly logged: readonly Keyed[];
  /** Per request: the ids that it was the first to bring, and the counts of its other messages. */
  private readonly requests: readonly AcceptRequest[];
  private readonly parts: { readonly first: string[]; readonly repeated: number; readonly suppressed: number }[];

  /** @param out - messages to skip */
  constructor(requests: readonly AcceptRequest[], out: ReadonlySet<NewMessage>) {
    this.requests = requests;
    const known = new Map<string, Keyed>();
    const logged: Keyed[] = [];
    this.parts = requests.map(({ messages, logged: isLogged = false }, request) => {
      const wanted = out.size === 0 ? messages : messages.filter((message) => !out.has(message));
      const first: string[] = [];
      for (const message of wanted) {
        const key = seenKey(message);
        if (known.has(key)) continue;
        const keyed = { request, key, message };
        known.set(key, keyed);
        if (isLogged) logged.push(keyed);
        first.push(key);
      }
      return { first, repeated: wanted.length - first.length, suppressed: messages.length - wanted.length };
    });
    this.messages = [...known.values()];
    this.logged = logged;
    this.rows = this.messages.flatMap((keyed) =>
      keyed.message.destinations.map((destination) => ({ ...keyed, destination })),
    );
  }

  get size(): number {
    return this.messages.length;
  }

  get isLogged(): boolean {
    return this.logged.length > 0;
  }

  logColumns(): Buffer[] {
    return logColumns(this.logged);
  }

  /** Return the most that each destination may get, except those that only get deletion notices. */
  additions(): { readonly limited: Buffer; readonly added: Buffer } {
    const added = new Map<string, number>();
    const limited = new Set<string>();
    for (const { message, destination } of this.rows) {
      added.set(destination, (added.get(destination) ?? 0) + 1);
      if (message.lane !== 'deletion') limited.add(destination);
    }
    const names = [...limited];
    return { limited: text(names), added: int4(names, (name) => added.get(name) ?? 0) };
  }

  keys(): Buffer {
    return uuid(this.messages, ({ key }) => key);
  }

  /** Return the columns of the rows, with their places and whether they are handed over. */
  columns(handed: readonly boolean[]): Buffer[] {
    const { rows } = this;
    return [
      uuid(rows, ({ key }) => key),
      text(rows, ({ destination }) => destination),
      int2(rows, ({ message }) => LANES.indexOf(message.lane)),
      int2(rows, ({ message }) => MESSAGE_TYPES.indexOf(message.type)),
      text(rows, ({ message }) => message.source),
      text(rows, ({ message }) => message.messageId),
      text(rows, ({ message }) => message.userId),
      text(rows, ({ message }) => message.body),
      int4([...rows.keys()]),
      bool(handed),
    ];
  }

  /** The owner that claims deliveries on accept; null for none. */
  get owner(): number | null {
    return this.requests.find(({ take }) => take)?.take?.owner ?? null;
  }

  /** For each row, decide if the owner claims it. Each request brings room of its own. */
  handed(owner: number | null): boolean[] {
    const left = this.requests.map(({ take }) => new Map(take?.owner === owner ? take?.room : []));
    return this.rows.map(({ request, destination }) => {
      const room = left[request]?.get(destination) ?? 0;
      left[request]?.set(destination, room - 1);
      return room > 0;
    });
  }

  /** Return the rows that were handed over, as claims per request. @param fresh - as for `results` */
  claims(
    context: StoreContext,
    ids: readonly number[],
    handed: readonly boolean[],
    fresh: readonly string[] | null,
  ): Claim[][] {
    const isFresh = freshKeys(fresh);
    const acceptedAt = context.db.time.now();
    const claims = this.requests.map((): Claim[] => []);
    for (const [index, { request, key, message, destination }] of this.rows.entries()) {
      if (handed[index] !== true || isFresh?.has(key) === false) continue;
      const { source, messageId, type, userId, body, lane, conflict } = message;
      claims[request]?.push({
        id: context.ids.name(ids[index] as number),
        destination,
        source: storable(source),
        messageId: storable(messageId),
        type,
        userId: userId === null ? null : storable(userId),
        body,
        lane,
        conflict,
        run: null,
        tries: 0,
        acceptedAt,
        firstAt: null,
        marks: NO_MARKS,
        crashes: 0,
      });
    }
    return claims;
  }

  /**
   * @param fresh - ids that were new; null if all were
   * @param claims - the deliveries that were handed over, per request
   */
  results(fresh: readonly string[] | null, claims: readonly (readonly Claim[])[]): AcceptResult[] {
    const isFresh = freshKeys(fresh);
    return this.parts.map(({ first, repeated, suppressed }, request) => {
      const accepted = isFresh ? first.filter((key) => isFresh.has(key)).length : first.length;
      const result = { accepted, duplicates: repeated + first.length - accepted, suppressed };
      return this.requests[request]?.take ? { ...result, claims: claims[request] ?? [] } : result;
    });
  }
}

const freshKeys = (fresh: readonly string[] | null) => fresh && new Set(fresh.map((id) => id.replaceAll('-', '')));
