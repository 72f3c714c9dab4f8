import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { verify } from '../../receivers/signature.ts';

export const SECRET = 'ledger-secret';
/** The static header that says which process sent a request. */
export const LIFE_HEADER = 'x-life';

/** How a message arrived: under which keys, and how often from each process. */
export interface Entry {
  readonly keys: Set<string>;
  readonly lives: Map<string, number>;
}

interface Body {
  readonly type: string;
  readonly userId: string;
  readonly messageId?: string;
  readonly traits?: { readonly regulars?: boolean };
  readonly context?: { readonly personas?: { readonly sequence: number } };
}

interface Envelope {
  readonly batch: readonly Body[];
  readonly keys: readonly string[];
}

/** A receiver that writes down what it accepted: every message with its Idempotency-Keys, and each user's membership. */
export class Ledger {
  readonly messages = new Map<string, Entry>();
  /** Latest value by sequence, as the receiver kit keeps it. */
  readonly members = new Map<string, { value: boolean; sequence: number }>();
  unverified = 0;
  /** Membership changes that came after a newer one of the same user. */
  backwards = 0;
  received = 0;
  private readonly server: Server;
  private readonly waiting: { at: number; resolve: () => void }[] = [];
  /** Keys of what was taken without an answer: it comes again at once, on another connection. */
  readonly unanswered = new Set<string>();
  private answers = 0;

  /** @param refusesSome - every ninth request is refused once, so that retries are always under way */
  constructor(refusesSome = true) {
    this.server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const body = Buffer.concat(chunks);
        if (!verify(body, request.headers['x-signature'] as string, SECRET).ok) this.unverified += 1;
        this.answers += 1;
        if (refusesSome && this.answers % 9 === 0) {
          response.writeHead(503).end();
          return;
        }
        const { 'idempotency-key': key, [LIFE_HEADER]: life } = request.headers;
        const received = JSON.parse(body.toString()) as Body | Envelope;
        if ('batch' in received) this.answerBatch(response, received, String(life));
        else {
          this.write(received, String(key), String(life));
          response.end('ok');
        }
      });
    });
  }

  async listen(): Promise<number> {
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    return (this.server.address() as AddressInfo).port;
  }

  close(): void {
    this.server.close();
    this.server.closeAllConnections();
  }

  /** Resolves when so many more requests have been accepted. */
  accepted(more: number): Promise<void> {
    return new Promise((resolve) => this.waiting.push({ at: this.received + more, resolve }));
  }

  /** Takes a batch whole, or in part, or whole without being able to say so. */
  private answerBatch(response: ServerResponse, { batch, keys }: Envelope, life: string): void {
    const turn = this.answers % 27;
    const isRejected = (index: number) => turn === 3 && index % 3 === 0;
    for (const [index, body] of batch.entries()) {
      if (!isRejected(index)) this.write(body, String(keys[index]), life);
    }
    if (turn === 5) {
      for (const key of keys) this.unanswered.add(String(key));
      response.destroy();
      return;
    }
    const rejected = batch.flatMap((_, index) => (isRejected(index) ? [{ index, code: 'busy' }] : []));
    const answer = JSON.stringify({ rejected });
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': answer.length });
    if (turn === 7) {
      response.write(answer.slice(0, answer.length / 2), () => response.destroy());
    } else response.end(answer);
  }

  private write(body: Body, key: string, life: string): void {
    const { userId, traits, context, messageId } = body;
    const sequence = context?.personas?.sequence;
    if (sequence !== undefined && typeof traits?.regulars === 'boolean') {
      const known = this.members.get(userId);
      if (known && sequence < known.sequence) this.backwards += 1;
      else this.members.set(userId, { value: traits.regulars, sequence });
      this.enter(`${userId} ${sequence}`, key, life);
    } else if (messageId !== undefined) this.enter(messageId, key, life);
    this.received += 1;
    for (const waiter of this.waiting.filter(({ at }) => at <= this.received)) {
      this.waiting.splice(this.waiting.indexOf(waiter), 1);
      waiter.resolve();
    }
  }

  private enter(id: string, key: string, life: string): void {
    const entry = this.messages.get(id) ?? { keys: new Set(), lives: new Map() };
    entry.keys.add(key);
    entry.lives.set(life, (entry.lives.get(life) ?? 0) + 1);
    this.messages.set(id, entry);
  }
}
