// See `errors.ts`: an import would cost 40 ms of each start.
const { IncomingMessage } = process.getBuiltinModule('node:http');

/** Bytes of a chunk that is joined with others, how many are joined at most, and how many a body may have. */
const SMALL = 256;
const JOINED = 64;
const MOST_SMALL = 4_096;

/**
 * A request whose small chunks are joined if they arrive at once. A chunk takes hundreds of bytes beside its own, and one read
 * of a connection may bring ten thousand of them.
 */
export class JoinedChunks extends IncomingMessage {
  /** Called if the body has too many small chunks. */
  onTooMany = () => {};
  private count = 0;
  private small: Buffer[] = [];

  override push(chunk: Buffer | null): boolean {
    // Most bodies have one chunk only.
    if (chunk === null || chunk.length >= SMALL || this.count === 0) {
      this.flush();
      this.count += 1;
      return super.push(chunk);
    }
    this.count += 1;
    if (this.count === MOST_SMALL) this.onTooMany();
    if (this.count >= MOST_SMALL) return true;
    if (this.small.length === 0) setImmediate(() => this.flush());
    if (this.small.push(chunk) === JOINED) this.flush();
    return this.readableLength < this.readableHighWaterMark;
  }

  private flush(): void {
    if (this.small.length === 0) return;
    const { small } = this;
    this.small = [];
    super.push(Buffer.concat(small));
  }
}
