import type { ServerResponse } from 'node:http';
import { documented } from '../../http/schemas.ts';
import type { Clock } from '../../kernel/clock.ts';
import { RollcallError } from '../../kernel/errors.ts';
import type { Logger } from '../../kernel/log.ts';
import type { HistoryFilter, Records } from '../../store/port.ts';
import { type ApiRoutes, failures } from './route.ts';

/** Topics of change events. Each names the resources to fetch again. */
const TOPICS = [
  ...(['overview', 'audiences', 'runs', 'endpoints', 'destinations'] as const),
  ...(['dead-letters', 'messages', 'sources', 'deletions', 'audit', 'history', 'alerts', 'sends'] as const),
] as const;
type Topic = (typeof TOPICS)[number];

/** Milliseconds between two checks, and so between two events. */
const PACE = 1_000;
const HEARTBEAT = 15_000;
/** Milliseconds after which a stream ends. Browsers reconnect, and have to sign in again if they may no longer read. */
const LASTS = 60 * 60 * 1_000;
const LISTENERS = 100;
/** Bytes that may wait for a slow listener. */
const BEHIND = 64 * 1024;

export interface EventParts {
  readonly store: Pick<
    Records,
    | 'backlog'
    | 'endpoints'
    | 'runs'
    | 'sends'
    | 'discards'
    | 'audits'
    | 'alerts'
    | 'regulations'
    | 'confirmed'
    | 'history'
  >;
  readonly clock: Pick<Clock, 'after' | 'monotonic'>;
  readonly log: Logger;
}

async function lookAtDeletions(store: EventParts['store']): Promise<unknown> {
  const newest = await store.regulations({ limit: 20 });
  return [newest.map(({ id, status }) => [id, status]), await store.confirmed(newest.map(({ id }) => id))];
}

/** Small values that differ after a change, with their topics. They are read together. */
const LOOKS: readonly (readonly [readonly Topic[], (store: EventParts['store']) => Promise<unknown>])[] = [
  [['overview', 'endpoints', 'destinations', 'dead-letters', 'messages'], (store) => store.backlog()],
  [['overview', 'endpoints', 'destinations'], (store) => store.endpoints()],
  [
    ['overview', 'audiences', 'runs'],
    async (store) => (await store.runs({ limit: 50 })).map(({ id, state, phase, sent }) => [id, state, phase, sent]),
  ],
  [['history'], async (store) => (await store.history(NEWEST)).map(({ counts, pending }) => [counts, pending])],
  [['sends'], async (store) => (await store.sends({ limit: 20 })).map(({ id, state, sent }) => [id, state, sent])],
  [['sources'], (store) => store.discards({ limit: 1 })],
  [['alerts'], (store) => store.alerts({ limit: 20 })],
  [['audit'], (store) => store.audits({ limit: 5 })],
  [['deletions'], lookAtDeletions],
];

const NEWEST: HistoryFilter = {
  ...{ subject: 'all', name: '', step: 'day' },
  ...{ since: 0, until: Number.MAX_SAFE_INTEGER, limit: 1 },
};

interface Listener {
  readonly response: ServerResponse;
  readonly until: number;
}

/**
 * `GET /events`: server-sent events `{"topics": […]}` that name what has changed, at most one a second. The store is polled
 * once for all listeners, and not at all without any, so that deliveries cost nothing more.
 */
export function eventRoutes({ app, gate }: ApiRoutes, parts: EventParts): void {
  const stream = new Stream(parts);
  const docs = documented(() => ({
    summary: 'Server-sent events that say what has changed',
    description: `Each is \`{"topics":[…]}\` of ${TOPICS.join(', ')}; one a second at most.`,
    tags: ['Events'],
    security: [{ adminToken: [] }],
    response: {
      200: {
        description: 'It goes on for an hour at most.',
        content: { 'text/event-stream': { schema: { type: 'string' } } },
      },
      ...failures('read'),
    },
  }));
  app.get('/events', { ...docs, exposeHeadRoute: false, onRequest: gate.guard('read') }, (_request, reply) => {
    if (stream.isFull)
      throw new RollcallError('overloaded', `${LISTENERS} pages are open already. Close one, or try again later.`);
    reply.hijack();
    stream.add(reply.raw);
  });
  app.addHook('preClose', async () => stream.close());
}

class Stream {
  private readonly parts: EventParts;
  private readonly listeners = new Set<Listener>();
  private known: readonly string[] | null = null;
  private cancel = () => {};
  private looking = false;
  private beatAt = 0;

  constructor(parts: EventParts) {
    this.parts = parts;
  }

  get isFull(): boolean {
    return this.listeners.size >= LISTENERS;
  }

  add(response: ServerResponse): void {
    const listener = { response, until: this.parts.clock.monotonic() + LASTS };
    response.writeHead(200, {
      'content-type': 'text/event-stream',
      'cache-control': 'no-store',
      // Proxies that buffer answers would hold the events back.
      'x-accel-buffering': 'no',
    });
    response.write('retry: 2000\n\n');
    response.once('close', () => {
      this.listeners.delete(listener);
      if (this.listeners.size === 0) this.rest();
    });
    this.listeners.add(listener);
    if (this.listeners.size === 1) this.schedule(0);
  }

  close(): void {
    this.rest();
    for (const listener of this.listeners) this.dismiss(listener);
  }

  /** End the answer once the listener has read what is buffered. Nothing more may be written to it until then. */
  private dismiss(listener: Listener): void {
    this.listeners.delete(listener);
    listener.response.end();
  }

  private rest(): void {
    this.cancel();
    this.known = null;
  }

  private schedule(ms: number): void {
    this.cancel();
    this.cancel = this.parts.clock.after(ms, () => void this.look());
  }

  private async look(): Promise<void> {
    if (this.looking) return;
    this.looking = true;
    try {
      const { store } = this.parts;
      const seen = await Promise.all(LOOKS.map(async ([, look]) => JSON.stringify(await look(store))));
      const { known } = this;
      const changed = LOOKS.flatMap(([topics], place) =>
        known !== null && known[place] !== seen[place] ? topics : [],
      );
      this.known = seen;
      this.tell([...new Set(changed)]);
    } catch (error) {
      this.parts.log.debug({ err: error }, 'Could not update open pages; retrying');
    } finally {
      this.looking = false;
    }
    if (this.listeners.size > 0) this.schedule(PACE);
  }

  private tell(topics: readonly Topic[]): void {
    const now = this.parts.clock.monotonic();
    const isSilent = topics.length === 0;
    if (isSilent && now - this.beatAt < HEARTBEAT) return;
    this.beatAt = now;
    const text = isSilent ? ': still here\n\n' : `data: ${JSON.stringify({ topics })}\n\n`;
    for (const listener of this.listeners) {
      const { response, until } = listener;
      if (now >= until || response.writableLength > BEHIND) this.dismiss(listener);
      else response.write(text);
    }
  }
}
