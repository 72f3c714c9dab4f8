import type { AcceptRequest, NewMessage, Take } from '../../port.ts';
import { partOf } from '../handed.ts';
import { movable, pack } from '../packed-messages.ts';
import type { Accepted, AcceptedEach } from '../queue/accept.ts';
import type { StoreThread } from './store-thread.ts';

/** A request of more messages crosses by itself: its strings would else wait as objects. */
const FEW = 8;
/** Requests in one operation. */
const MOST = 500;

interface Gathering {
  readonly requests: AcceptRequest[];
  readonly grow: (messages: number) => void;
  readonly result: Promise<AcceptedEach>;
}

/** Requests of few messages wait for the thread together, and cross to it as one operation: by themselves they cost a quarter of a call. */
export class SmallAccepts {
  private readonly thread: StoreThread;
  private readonly maxQueued: number;
  private readonly logged: boolean;
  private open: Gathering | null = null;

  constructor(thread: StoreThread, maxQueued: number, logged: boolean) {
    this.thread = thread;
    this.maxQueued = maxQueued;
    this.logged = logged;
  }

  static isSmall({ messages, step, live = null }: AcceptRequest): boolean {
    return messages.length <= FEW && step === null && live === null;
  }

  add(request: AcceptRequest): Promise<Accepted> {
    this.open ??= this.begin();
    const { requests, grow, result } = this.open;
    const place = requests.push(request) - 1;
    grow(request.messages.length);
    if (requests.length === MOST) this.open = null;
    // Nothing that waits holds the request.
    return acceptedOf(result, place);
  }

  private begin(): Gathering {
    const requests: AcceptRequest[] = [];
    const { maxQueued, logged } = this;
    const { grow, result } = this.thread.gather('acceptEach', (ahead) => {
      if (this.open?.requests === requests) this.open = null;
      const messages: NewMessage[] = [];
      const counts = new Int32Array(requests.length);
      let takes: (Take | null)[] | null = null;
      for (const [index, request] of requests.entries()) {
        messages.push(...request.messages);
        counts[index] = request.messages.length;
        if (!request.take) continue;
        takes ??= new Array<null>(requests.length).fill(null);
        takes[index] = request.take;
      }
      const packed = pack(messages);
      requests.length = 0;
      const args = { messages: packed, counts, takes, maxQueued, logged, ahead };
      return { args: [args], movable: movable(packed) };
    });
    return { requests, grow, result };
  }
}

async function acceptedOf(result: Promise<AcceptedEach>, place: number): Promise<Accepted> {
  const { numbers, handed } = await result;
  const [accepted = 0, duplicates = 0, suppressed = 0, end = 0] = numbers.subarray(4 * place, 4 * place + 4);
  const from = numbers[4 * place - 1] ?? 0;
  return { accepted, duplicates, suppressed, handed: handed && partOf(handed, from, end) };
}
