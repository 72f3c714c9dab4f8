import { RollcallError } from '../kernel/errors.ts';

export class JsonBody {
  /** Length of the JSON, after inflating. */
  readonly bytes: number;
  /** The messages, if `batch` is a list. */
  readonly items: readonly unknown[] | null;
  /** The body without its list of messages. */
  readonly rest: unknown;

  /**
   * Bytes that are not UTF-8 become U+FFFD: one bad character must not cost its neighbours.
   *
   * @throws RollcallError `invalid_json`
   */
  constructor(bytes: Buffer) {
    const value = parse(bytes.toString('utf8', hasByteOrderMark(bytes) ? 3 : 0));
    const items = (value as { readonly batch?: unknown } | null)?.batch;
    this.bytes = bytes.length;
    this.items = Array.isArray(items) ? items : null;
    this.rest = this.items === null ? value : withoutBatch(value as object);
  }

  get writeKey(): string | null {
    const writeKey = (this.rest as { readonly writeKey?: unknown } | null)?.writeKey;
    return typeof writeKey === 'string' ? writeKey : null;
  }
}

function withoutBatch({ batch: _batch, ...rest }: { readonly batch?: unknown }): object {
  return rest;
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    throw new RollcallError('invalid_json', 'The body must be JSON.');
  }
}

function hasByteOrderMark(bytes: Buffer): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
}
