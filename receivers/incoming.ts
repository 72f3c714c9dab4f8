import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';

/** One header of a Node request. Repeated headers are joined, so that they can't pass for one value. */
export function headerOf(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value.join(', ') : value;
}

/** Called once: with the whole body, with nothing when it is over the limit, or with an error. */
export type BodyRead = (error: Error | undefined, body: Buffer | undefined) => void;

/** Something else has read the body, or part of it. */
export class AlreadyRead extends Error {
  override name = 'AlreadyRead';
  override message = 'the body was already read: mount the receiver before whatever parses bodies';
}

/** The body did not arrive before the deadline. */
export class TooSlow extends Error {
  override name = 'TooSlow';
  override message = 'the body did not arrive in time';
}

/** The sender closed the connection before the body was complete. */
export class HungUp extends Error {
  override name = 'HungUp';
  override message = 'the body ended too early';
}

/** Codes of a connection that its sender closed. */
const HANG_UPS: readonly unknown[] = ['ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ERR_STREAM_PREMATURE_CLOSE'];

/** Anyone can hang up, so that is not a fault of the host. */
export function isHungUp(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return (
    error instanceof HungUp || error.name === 'AbortError' || HANG_UPS.includes((error as { code?: unknown }).code)
  );
}

/** Calls back when a body takes too long. Returns a function that cancels. */
export type ReadDeadline = (cut: () => void) => () => void;

/** The reason that a stream will emit nothing more: its events are not repeated. */
function unreadable(stream: Readable): Error | undefined {
  if (stream.readableDidRead || stream.readableEnded) return new AlreadyRead();
  return stream.destroyed ? new HungUp() : undefined;
}

/**
 * Reads a whole stream. A body of one chunk, as nearly all are, is passed on as it is: copying costs as much as hashing.
 */
export function readBody(stream: Readable, limit: number, deadline: ReadDeadline, done: BodyRead): void {
  const lost = unreadable(stream);
  if (lost) return void done(lost, undefined);
  const chunks: Buffer[] = [];
  let size = 0;
  let finished = false;

  // The listeners stay, so that a later error does not end the process. Remaining data is discarded.
  function finish(error: Error | undefined, body: Buffer | undefined): void {
    if (finished) return;
    finished = true;
    if (body === undefined) stream.off('data', onData);
    cancel();
    done(error, body);
  }
  function onData(chunk: Buffer): void {
    size += chunk.length;
    if (size > limit) finish(undefined, undefined);
    else chunks.push(chunk);
  }
  function onEnd(): void {
    finish(undefined, chunks.length === 1 ? chunks[0] : Buffer.concat(chunks, size));
  }
  function onError(error: Error): void {
    finish(error, undefined);
  }
  function onClose(): void {
    // Every stream closes, so make no error needlessly: its stack costs more than the rest of the reading.
    if (!finished) finish(new HungUp(), undefined);
  }
  const cancel = deadline(() => finish(new TooSlow(), undefined));
  stream.on('data', onData).on('end', onEnd).on('error', onError).on('close', onClose);
}
