import type { Socket } from 'node:net';
import { errors } from 'undici';
import { RESPONSE_LIMIT } from '../response-text.ts';

/** Limits of bytes before the final head, and from it on. undici doesn't count padding and framing. */
const HEADS_LIMIT = 64 * 1024;
export const ANSWER_LIMIT = RESPONSE_LIMIT + HEADS_LIMIT;
/** Limit of lines from the final head on: undici keeps two objects per header or trailer, 300 bytes for `a: b`. */
const LINES_LIMIT = 2_000;
const LINE_FEED = 0x0a;
/** Index of the status in `HTTP/1.1 100`, and the first digit of an interim one. */
const STATUS_AT = 9;
const ONE = 0x31;
const NOTHING = Buffer.alloc(0);
const END = Buffer.from('\r\n\r\n');

/**
 * Removes interim answers (`100 Continue`, `102 Processing`, `103 Early Hints`) from a socket's input. A client must
 * accept them unasked (RFC 9110 section 15.2), but undici ends the connection at a 100. Only the first bytes after a
 * request are checked; everything after a head that is not interim passes unchanged. Ends the connection if an answer
 * exceeds its limits. Needs one request at a time.
 */
export function withoutInterim<S extends Socket>(socket: S): S {
  const answer = new Answer();
  ANSWERS.set(socket, answer);
  const { read } = socket;
  const write = socket.write as Write;
  socket.read = (size?: number) => {
    if (size === 0) return read.call(socket, size);
    for (;;) {
      if (answer.isTooLong) {
        socket.destroy(new errors.HeadersOverflowError());
        return null;
      }
      const chunk = read.call(socket) as Buffer | null;
      if (chunk === null) return null;
      const rest = answer.admit(answer.strip(chunk));
      if (rest.length > 0) return rest;
    }
  };
  // Called twice per request: spread arguments would double the cost.
  socket.write = ((chunk, encoding, callback) => {
    answer.begin();
    return write.call(socket, chunk, encoding, callback);
  }) as Write;
  return socket;
}

const ANSWERS = new WeakMap<Socket, Answer>();

/** True if no byte of an answer arrived since the last request was written. */
export function isUnanswered(socket: Socket | null | undefined): boolean {
  return (socket && ANSWERS.get(socket)?.isUnanswered) ?? false;
}

type Write = (this: Socket, chunk: unknown, encoding?: unknown, callback?: unknown) => boolean;

class Answer {
  /** True until the final head begins. */
  private isInterim = false;
  private received = 0;
  private lines = 0;
  /** Beginning of a head that may be an interim one or is incomplete. */
  private held: Buffer = NOTHING;

  begin(): void {
    this.isInterim = true;
    this.received = 0;
    this.lines = 0;
  }

  get isUnanswered(): boolean {
    return this.isInterim && this.received === 0;
  }

  get isTooLong(): boolean {
    return this.received > (this.isInterim ? HEADS_LIMIT : ANSWER_LIMIT) || this.lines > LINES_LIMIT;
  }

  /** Returns the beginning of these bytes that has no more lines than an answer may have. */
  admit(bytes: Buffer): Buffer {
    let end = -1;
    do {
      end = bytes.indexOf(LINE_FEED, end + 1);
      if (end === -1) return bytes;
      this.lines += 1;
    } while (this.lines <= LINES_LIMIT);
    return bytes.subarray(0, end);
  }

  /** Returns the part of a chunk that undici may see. */
  strip(chunk: Buffer): Buffer {
    this.received += chunk.length;
    if (!this.isInterim) return chunk;
    let bytes = this.held.length > 0 ? Buffer.concat([this.held, chunk]) : chunk;
    this.held = NOTHING;
    for (;;) {
      const kind = kindOf(bytes);
      if (kind === 'final') break;
      const end = kind === 'interim' ? bytes.indexOf(END) : -1;
      if (end === -1) {
        this.held = bytes;
        return NOTHING;
      }
      bytes = bytes.subarray(end + END.length);
    }
    this.isInterim = false;
    this.received = bytes.length;
    return bytes;
  }
}

/** 101 switches the protocol: it is no interim answer, and undici refuses it if not asked for. */
function kindOf(bytes: Buffer): 'interim' | 'final' | 'unknown' {
  if (bytes.length > STATUS_AT && bytes[STATUS_AT] !== ONE) return 'final';
  const start = bytes.toString('latin1', 0, STATUS_AT + 3);
  if (start.length < STATUS_AT + 3) return 'HTTP/1.1 1'.startsWith(start.slice(0, STATUS_AT + 1)) ? 'unknown' : 'final';
  return /^HTTP\/1\.\d 1(?!01)\d\d/.test(start) ? 'interim' : 'final';
}
