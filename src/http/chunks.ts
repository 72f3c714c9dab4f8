// See `errors.ts`: an import would cost 40 ms of each start.
const { IncomingMessage } = process.getBuiltinModule('node:http');

/** Bytes of a chunk that is joined with others, and how many are joined at most. */
const SMALL = 256;
const JOINED = 64;
/** Bytes of a chunk that nobody sends many of, and how many may arrive at once. */
const TINY = 32;
const MOST_TINY = 512;

/**
 * A request whose small chunks are joined if they arrive at once. A chunk takes hundreds of bytes beside its own, and one read
 * of a connection may bring ten thousand of them.
 */
export class JoinedChunks extends IncomingMessage {
  /** Called if too many tiny chunks arrive at once. */
  onTooMany = () => {};
  private tiny = 0;
  private small: Buffer[] = [];
  private flushing: NodeJS.Immediate | null = null;

  override push(chunk: Buffer | null): boolean {
    if (chunk === null || chunk.length >= SMALL) {
      this.flush();
      return super.push(chunk);
    }
    this.flushing ??= setImmediate(() => {
      this.flushing = null;
      this.tiny = 0;
      this.flush();
    });
    if (chunk.length < TINY) this.tiny += 1;
    if (this.tiny === MOST_TINY) this.onTooMany();
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
