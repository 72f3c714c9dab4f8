import { Client, Dispatcher } from 'undici';

/**
 * One connection per request in flight. The last used is reused first, so that surplus ones become idle and are closed.
 * undici's own pool considers a connection busy for one more pass of the event loop, and so opens up to twice as many.
 */
export class Connections extends Dispatcher {
  private readonly options: Client.Options;
  private readonly clients = new Set<Client>();
  /** Idle connections by origin, last used at the end. */
  private readonly idle = new Map<string, Client[]>();

  constructor(options: Client.Options) {
    super();
    this.options = options;
  }

  override dispatch(request: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const origin = String(request.origin);
    const client = this.idle.get(origin)?.pop() ?? this.open(origin);
    try {
      return client.dispatch(request, new EndHandler(handler, (isUsable) => this.take(origin, client, isUsable)));
    } catch (error) {
      this.drop(client);
      throw error;
    }
  }

  override close(): Promise<void>;
  override close(callback: () => void): void;
  override close(callback?: () => void): Promise<void> | undefined {
    const closed = Promise.all([...this.clients].map((client) => client.close())).then(() => {});
    if (!callback) return closed;
    closed.then(callback, callback);
    return undefined;
  }

  override async destroy(): Promise<void> {
    await Promise.all([...this.clients].map((client) => client.destroy()));
  }

  private open(origin: string): Client {
    const client = new Client(origin, this.options);
    this.clients.add(client);
    // A connection in use reconnects automatically, or its request fails.
    client.on('disconnect', () => this.forget(origin, client));
    return client;
  }

  /** Takes back a connection after a request. */
  private take(origin: string, client: Client, isUsable: boolean): void {
    const idle = this.idle.get(origin);
    if (!isUsable || client.closed) this.drop(client);
    else if (idle) idle.push(client);
    else this.idle.set(origin, [client]);
  }

  private forget(origin: string, client: Client): void {
    const idle = this.idle.get(origin);
    const index = idle?.indexOf(client) ?? -1;
    if (!idle || index === -1) return;
    idle.splice(index, 1);
    if (idle.length === 0) this.idle.delete(origin);
    this.drop(client);
  }

  private drop(client: Client): void {
    this.clients.delete(client);
    client.destroy().catch(() => undefined);
  }
}

/** Forwards everything, and reports once when a request has ended, with true if its connection is still usable. */
class EndHandler implements Dispatcher.DispatchHandler {
  private readonly handler: Dispatcher.DispatchHandler;
  private readonly onEnd: (isUsable: boolean) => void;
  private ended = false;

  constructor(handler: Dispatcher.DispatchHandler, onEnd: (isUsable: boolean) => void) {
    this.handler = handler;
    this.onEnd = onEnd;
  }

  onRequestStart(controller: Dispatcher.DispatchController, context: unknown): void {
    this.handler.onRequestStart?.(controller, context);
  }

  onResponseStart(...start: Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseStart']>>): void {
    this.handler.onResponseStart?.(...start);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.handler.onResponseData?.(controller, chunk);
  }

  onResponseEnd(...end: Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseEnd']>>): void {
    this.end(true);
    this.handler.onResponseEnd?.(...end);
  }

  onResponseError(controller: Dispatcher.DispatchController, error: Error): void {
    this.end(false);
    this.handler.onResponseError?.(controller, error);
  }

  /** A connection returned twice would carry two requests at once. */
  private end(isUsable: boolean): void {
    if (this.ended) return;
    this.ended = true;
    this.onEnd(isUsable);
  }
}
