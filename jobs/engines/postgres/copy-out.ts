import type pg from 'pg';
import { RollcallError } from '../../../src/kernel/errors.ts';
import { INSIST_EVERY } from '../insist.ts';

/** Rows that wait to be read before the server is made to wait, and their bytes. */
const BATCH = 20_000;
const BYTES = 4_000_000;

/** Lines of `COPY`'s text format, without the last line break. */
export interface CopiedLines {
  readonly rows: number;
  readonly text: string;
}

/** The socket of a connection; the types of `pg` don't have its flow. */
interface Flow {
  query(text: string): void;
  readonly stream: { pause(): void; resume(): void };
}

/**
 * `COPY (…) TO STDOUT`, which costs half of a cursor. It ends with the server's count of rows.
 *
 * @param copy - the statement
 * @param interrupt - cancels it; called again while it continues
 */
export async function* copyOut(client: pg.Client, copy: string, interrupt: () => void): AsyncGenerator<CopiedLines> {
  const query = new CopyOut(copy);
  client.query(query as unknown as pg.Submittable);
  try {
    for (let lines = await query.next(); lines; lines = await query.next()) yield lines;
  } finally {
    await query.end(interrupt);
  }
}

/** A query as `pg` drives it: the client calls the verbs that begin with `handle`. */
class CopyOut {
  private readonly text: string;
  private flow: Flow | null = null;
  private buffer = Buffer.allocUnsafe(64 * 1024);
  private bytes = 0;
  private rows = 0;
  private total = 0;
  /** The server's count; null before its end. */
  private counted: number | null = null;
  private failure: Error | null = null;
  private isOver = false;
  private isReleased = false;
  private wake = () => {};

  constructor(text: string) {
    this.text = text;
  }

  submit(connection: Flow): void {
    this.flow = connection;
    connection.query(this.text);
  }

  /** The rows that have arrived; null after the last. */
  async next(): Promise<CopiedLines | null> {
    for (;;) {
      if (this.isFull || (this.isOver && this.failure === null && this.rows > 0)) {
        const { rows } = this;
        const text = this.buffer.toString('utf8', 0, this.bytes - 1);
        this.rows = 0;
        this.bytes = 0;
        this.flow?.stream.resume();
        return { rows, text };
      }
      if (this.isOver) {
        if (this.failure) throw this.failure;
        if (this.counted === this.total) return null;
        throw new RollcallError(
          'source_incomplete',
          `Postgres counts ${this.counted} rows, and ${this.total} arrived.`,
        );
      }
      await new Promise<void>((wake) => {
        this.wake = wake;
      });
    }
  }

  /** Cancels it if it is not over, and lets the rest of the rows pass. */
  async end(interrupt: () => void): Promise<void> {
    if (this.isOver) return;
    this.isReleased = true;
    this.flow?.stream.resume();
    const ended = new Promise<void>((wake) => {
      this.wake = wake;
    });
    interrupt();
    const insisting = setInterval(interrupt, INSIST_EVERY);
    await ended.finally(() => clearInterval(insisting));
  }

  private get isFull(): boolean {
    return this.rows >= BATCH || this.bytes >= BYTES;
  }

  handleCopyData({ chunk }: { readonly chunk: Buffer }): void {
    if (this.isReleased) return;
    this.total += 1;
    this.rows += 1;
    const end = this.bytes + chunk.length;
    if (end > this.buffer.length) {
      const { buffer } = this;
      this.buffer = Buffer.allocUnsafe(2 * end);
      buffer.copy(this.buffer, 0, 0, this.bytes);
    }
    this.buffer.set(chunk, this.bytes);
    this.bytes = end;
    if (!this.isFull) return;
    this.flow?.stream.pause();
    this.wake();
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    this.counted = Number(/^COPY (\d+)$/.exec(text)?.[1] ?? Number.NaN);
  }

  handleReadyForQuery(): void {
    this.isOver = true;
    this.wake();
  }

  /** After an error of the server, it is ready for the next query; after one of the connection, it never is. */
  handleError(error: Error): void {
    this.failure ??= error;
    this.isOver = true;
    this.wake();
  }

  handleRowDescription(): void {}
  handleDataRow(): void {}
  handlePortalSuspended(): void {}
  handleEmptyQuery(): void {}
}

/** The values of lines, by column. */
export function copiedValues({ text }: CopiedLines, columns: number): readonly (readonly (string | null)[])[] {
  const lines = text.split('\n').map((line) => line.split('\t'));
  const isEscaped = text.includes('\\');
  return Array.from({ length: columns }, (_, place) =>
    lines.map((fields) => (isEscaped ? unescaped(fields[place] ?? '') : (fields[place] ?? ''))),
  );
}

const ESCAPES: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' };

function unescaped(field: string): string | null {
  if (field === '\\N') return null;
  return field.includes('\\') ? field.replaceAll(/\\(.)/g, (_, code: string) => ESCAPES[code] ?? code) : field;
}
