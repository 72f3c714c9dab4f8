import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { verify } from '../../receivers/signature.ts';

export const SECRET = 'ledger-secret';

interface Entry {
  times: number;
  readonly keys: Set<string>;
}

/** A receiver that writes down what it accepted: every message with its Idempotency-Keys, and each user's membership. */
export class Ledger {
  readonly messages = new Map<string, Entry>();
  /** Latest value by sequence, as the receiver kit keeps it. */
  readonly members = new Map<string, { value: boolean; sequence: number }>();
  readonly deletions = new Set<string>();
  unverified = 0;
  private readonly server: Server;
  private received = 0;
  private readonly waiting: { at: number; resolve: () => void }[] = [];
  private answers = 0;

  constructor() {
    this.server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const body = Buffer.concat(chunks);
        if (!verify(body, request.headers['x-signature'] as string, SECRET).ok) this.unverified += 1;
        // Every ninth is refused once, so that retries are always under way.
        this.answers += 1;
        if (this.answers % 9 === 0) {
          response.writeHead(503).end();
          return;
        }
        this.write(JSON.parse(body.toString()), String(request.headers['idempotency-key']));
        response.end('ok');
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

  private write(body: Record<string, unknown>, key: string): void {
    const { type, userId, traits, context, messageId } = body as {
      type: string;
      userId: string;
      traits?: { regulars?: boolean };
      context?: { personas?: { sequence: number } };
      messageId?: string;
    };
    if (type === 'delete') this.deletions.add(userId);
    const sequence = context?.personas?.sequence;
    if (sequence !== undefined && typeof traits?.regulars === 'boolean') {
      const known = this.members.get(userId);
      if (!known || sequence >= known.sequence) this.members.set(userId, { value: traits.regulars, sequence });
    } else if (messageId !== undefined) {
      const entry = this.messages.get(messageId) ?? { times: 0, keys: new Set() };
      entry.times += 1;
      entry.keys.add(key);
      this.messages.set(messageId, entry);
    }
    this.received += 1;
    for (const waiter of this.waiting.filter(({ at }) => at <= this.received)) {
      this.waiting.splice(this.waiting.indexOf(waiter), 1);
      waiter.resolve();
    }
  }
}
