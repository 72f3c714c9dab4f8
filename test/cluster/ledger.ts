import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { PARITY } from './parity.ts';

interface Arrival {
  readonly from: number;
  to: number;
}

/** The receiver of all deliveries: what came, when, and what was answered. */
export class Ledger {
  /** Message ids answered with 200. */
  readonly taken = new Set<string>();
  /** Per user, the value of the last change that was answered with 200. */
  readonly values = new Map<string, number>();
  /** Per user of the scheduled audience, the latest value answered with 200, as a receiver that goes by `sequence` keeps it. */
  readonly members = new Map<string, { readonly value: boolean; readonly sequence: number }>();
  /** Per user, changes answered with 200 that were older than one before. */
  backwards = 0;
  private readonly arrivals = new Map<string, Arrival[]>();
  private readonly server = createServer((request, response) => void this.answer(request, response));
  private onTaken: (() => void) | null = null;

  async listen(): Promise<string> {
    this.server.listen(0, '127.0.0.1');
    await once(this.server, 'listening');
    return `http://127.0.0.1:${(this.server.address() as { port: number }).port}/`;
  }

  /** Resolves once `isDone`, which is asked after every message. */
  async until(isDone: () => boolean): Promise<void> {
    while (!isDone()) await new Promise<void>((resolve) => (this.onTaken = resolve));
  }

  /** Posts of one delivery that were under way at the same time. */
  get overlaps(): number {
    let count = 0;
    for (const posts of this.arrivals.values()) {
      posts.sort((a, b) => a.from - b.from);
      for (const [index, { from }] of posts.entries()) if (from < (posts[index - 1]?.to ?? 0)) count += 1;
    }
    return count;
  }

  /** Posts beyond the first of a delivery. */
  get repeats(): number {
    return [...this.arrivals.values()].reduce((sum, posts) => sum + posts.length - 1, 0);
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, 'close');
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const arrival = { from: performance.now(), to: Number.POSITIVE_INFINITY };
    const key = String(request.headers['idempotency-key']);
    this.arrivals.set(key, [...(this.arrivals.get(key) ?? []), arrival]);
    const body = JSON.parse(await text(request).catch(() => 'null')) as Record<string, never> | null;
    const fails = Math.random() < 0.05;
    response.statusCode = fails ? 503 : 200;
    response.end();
    arrival.to = performance.now();
    if (fails || !body) return;
    const { id, user, tick } = body as { id?: string; user?: string; tick?: number };
    if (id !== undefined) this.taken.add(id);
    if (user !== undefined && tick !== undefined) {
      if (tick < (this.values.get(user) ?? -1)) this.backwards += 1;
      this.values.set(user, tick);
    }
    if ('traits' in body) this.keepMember(body as unknown as MembershipBody);
    this.onTaken?.();
  }

  private keepMember({ userId, traits, context }: MembershipBody): void {
    const { sequence } = context.personas;
    if (sequence < (this.members.get(userId)?.sequence ?? 0)) return;
    this.members.set(userId, { value: traits[PARITY.key] === true, sequence });
  }
}

interface MembershipBody {
  readonly userId: string;
  readonly traits: Readonly<Record<string, unknown>>;
  readonly context: { readonly personas: { readonly sequence: number } };
}
