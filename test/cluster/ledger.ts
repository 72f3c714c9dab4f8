import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { PARITY } from './parity.ts';

interface Post {
  readonly from: number;
  to: number;
}

/** A post about one who may be deleted. */
export interface Arrival {
  readonly user: string;
  readonly at: number;
  /** When what it says was recorded, or the run began that computed it. */
  readonly computedAt: number;
  readonly isNotice: boolean;
  /** Whether it says that the user entered, and was taken. */
  readonly entered: boolean;
  readonly taken: boolean;
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
  /** All posts about those who may be deleted. */
  readonly aboutVictims: Arrival[] = [];
  private readonly posts = new Map<string, Post[]>();
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
    for (const posts of this.posts.values()) {
      posts.sort((a, b) => a.from - b.from);
      for (const [index, { from }] of posts.entries()) if (from < (posts[index - 1]?.to ?? 0)) count += 1;
    }
    return count;
  }

  /** Posts beyond the first of a delivery. */
  get repeats(): number {
    return [...this.posts.values()].reduce((sum, posts) => sum + posts.length - 1, 0);
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, 'close');
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const post = { from: performance.now(), to: Number.POSITIVE_INFINITY };
    const at = Date.now();
    const key = String(request.headers['idempotency-key']);
    this.posts.set(key, [...(this.posts.get(key) ?? []), post]);
    const body = JSON.parse(await text(request).catch(() => 'null')) as Record<string, never> | null;
    // Much of what is told of those who may be deleted waits for another try when they are.
    const isVictims = body !== null && 'about' in body;
    const fails = Math.random() < (isVictims ? 0.8 : 0.05);
    if (body) this.note(body as unknown as VictimBody, at, !fails);
    response.statusCode = fails ? (isVictims ? 500 : 503) : 200;
    response.end();
    post.to = performance.now();
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

  private note({ type, userId, about, recordedAt, traits, context }: VictimBody, at: number, taken: boolean): void {
    const user = about ?? userId;
    if (!user?.startsWith('v')) return;
    // A sequence is the start of its run in microseconds, or later.
    const computedAt = recordedAt ?? (context?.personas ? context.personas.sequence / 1_000 : at);
    const entered = taken && traits?.[PARITY.key] === true;
    this.aboutVictims.push({ user, at, computedAt, isNotice: type === 'delete', entered, taken });
  }

  private keepMember({ userId, traits, context }: MembershipBody): void {
    const { sequence } = context.personas;
    if (sequence < (this.members.get(userId)?.sequence ?? 0)) return;
    this.members.set(userId, { value: traits[PARITY.key] === true, sequence });
  }
}

interface VictimBody {
  readonly type?: string;
  readonly userId?: string;
  readonly about?: string;
  readonly recordedAt?: number;
  readonly traits?: Readonly<Record<string, unknown>>;
  readonly context?: { readonly personas?: { readonly sequence: number } };
}

interface MembershipBody {
  readonly userId: string;
  readonly traits: Readonly<Record<string, unknown>>;
  readonly context: { readonly personas: { readonly sequence: number } };
}
