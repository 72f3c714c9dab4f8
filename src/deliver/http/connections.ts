import type { Socket } from 'node:net';
import { type buildConnector, Client, Dispatcher } from 'undici';
import { isUnanswered } from './interim.ts';

interface ConnectionsOptions extends Client.Options {
  /** Makes sockets that have passed `withoutInterim`. */
  readonly connect: buildConnector.connector;
}

/** Errors of a connection that the other side has closed. */
const CLOSED: ReadonlySet<unknown> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

/**
 * One connection per request in flight. The last used is reused first, so that surplus ones become idle and are closed.
 * undici's own pool considers a connection busy for one more pass of the event loop, and so opens up to twice as many.
 */
export class Connections extends Dispatcher {
  private readonly options: ConnectionsOptions;
  /** Each connection's socket, once it has one. */
  private readonly clients = new Map<Client, Socket | null>();
  /** Idle connections by origin, last used at the end. */
  private readonly idle = new Map<string, Client[]>();

  constructor(options: ConnectionsOptions) {
    super();
    this.options = options;
  }

  override dispatch(request: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const origin = String(request.origin);
    const reused = this.idle.get(origin)?.pop();
    if (!reused) return this.dispatchOn(this.open(origin), request, handler);
    // Servers may close after any answer without saying so. A reused connection that ends without a byte is replaced.
    return this.dispatchOn(reused, request, handler, () => {
      this.dispatchOn(this.open(origin), request, handler);
    });
  }

  private dispatchOn(
    client: Client,
    request: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
    onClosed: (() => void) | null = null,
  ): boolean {
    const onEnd = (error: Error | null) => {
      const { code } = (error ?? {}) as NodeJS.ErrnoException;
      const isClosed = onClosed !== null && CLOSED.has(code) && isUnanswered(this.clients.get(client));
      this.take(String(request.origin), client, error === null);
      if (isClosed) onClosed();
      return isClosed;
    };
    try {
      return client.dispatch(request, new EndHandler(handler, onEnd));
    } catch (error) {
      this.drop(client);
      throw error;
    }
  }

  override close(): Promise<void>;
  override close(callback: () => void): void;
  override close(callback?: () => void): Promise<void> | undefined {
    const closed = Promise.all([...this.clients.keys()].map((client) => client.close())).then(() => {});
    if (!callback) return closed;
    closed.then(callback, callback);
    return undefined;
  }

  override async destroy(): Promise<void> {
    await Promise.all([...this.clients.keys()].map((client) => client.destroy()));
  }

  private open(origin: string): Client {
    const client = new Client(origin, {
      ...this.options,
      connect: (options, callback) =>
        this.options.connect(options, (...result) => {
          if (this.clients.has(client)) this.clients.set(client, result[1]);
          callback(...result);
        }),
    });
    this.clients.set(client, null);
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

/** Forwards everything, and reports once when a request has ended. An error that `onEnd` takes is not forwarded. */
class EndHandler implements Dispatcher.DispatchHandler {
  private readonly handler: Dispatcher.DispatchHandler;
  private readonly onEnd: (error: Error | null) => boolean;
  private ended = false;

  constructor(handler: Dispatcher.DispatchHandler, onEnd: (error: Error | null) => boolean) {
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
    this.end(null);
    this.handler.onResponseEnd?.(...end);
  }

  onResponseError(controller: Dispatcher.DispatchController, error: Error): void {
    if (!this.end(error)) this.handler.onResponseError?.(controller, error);
  }

  /** A connection returned twice would carry two requests at once. */
  private end(error: Error | null): boolean {
    if (this.ended) return false;
    this.ended = true;
    return this.onEnd(error);
  }
}
