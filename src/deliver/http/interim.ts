import type { Socket } from 'node:net';

/** A head that is longer is left to undici, which ends it at the same size. */
const HEAD_LIMIT = 16 * 1024;
/** `HTTP/1.1 100`: where the status stands, and its first digit where it is interim. */
const STATUS_AT = 9;
const ONE = 0x31;
const NOTHING = Buffer.alloc(0);
const END = Buffer.from('\r\n\r\n');

/**
 * Takes interim answers (`100 Continue`, `102 Processing`, `103 Early Hints`) out of what a socket reads. A client must
 * accept them unasked (RFC 9110 section 15.2), and undici ends the connection at a 100. Only the first bytes after a
 * request are looked at; whatever follows a head that is not interim is passed on as it is. Needs one request at a
 * time.
 */
export function withoutInterim<S extends Socket>(socket: S): S {
  const interim = new Interim();
  const { read } = socket;
  const write = socket.write as Write;
  socket.read = (size?: number) => {
    if (!interim.isExpected || size === 0) return read.call(socket, size);
    for (;;) {
      const chunk = read.call(socket) as Buffer | null;
      if (chunk === null) return null;
      const rest = interim.strip(chunk);
      if (rest.length > 0) return rest;
    }
  };
  // Two for each request: spread arguments would double what they cost.
  socket.write = ((chunk, encoding, callback) => {
    interim.isExpected = true;
    return write.call(socket, chunk, encoding, callback);
  }) as Write;
  return socket;
}

type Write = (this: Socket, chunk: unknown, encoding?: unknown, callback?: unknown) => boolean;

class Interim {
  /** Whether the next bytes begin a head. */
  isExpected = false;
  /** The beginning of a head that may still be an interim one, or that has not ended. */
  private held: Buffer = NOTHING;

  /** The part of a chunk that undici may see. */
  strip(chunk: Buffer): Buffer {
    let bytes = this.held.length > 0 ? Buffer.concat([this.held, chunk]) : chunk;
    this.held = NOTHING;
    for (;;) {
      const kind = kindOf(bytes);
      if (kind === 'final') break;
      const end = kind === 'interim' ? bytes.indexOf(END) : -1;
      if (end === -1) {
        if (bytes.length > HEAD_LIMIT) break;
        this.held = bytes;
        return NOTHING;
      }
      bytes = bytes.subarray(end + END.length);
    }
    this.isExpected = false;
    return bytes;
  }
}

/** 101 ends the protocol that was spoken: it is no interim answer, and undici refuses it where it was not asked for. */
function kindOf(bytes: Buffer): 'interim' | 'final' | 'unknown' {
  if (bytes.length > STATUS_AT && bytes[STATUS_AT] !== ONE) return 'final';
  const start = bytes.toString('latin1', 0, STATUS_AT + 3);
  if (start.length < STATUS_AT + 3) return 'HTTP/1.1 1'.startsWith(start.slice(0, STATUS_AT + 1)) ? 'unknown' : 'final';
  return /^HTTP\/1\.\d 1(?!01)\d\d/.test(start) ? 'interim' : 'final';
}
