import { hash } from 'node:crypto';
import type { Source } from '../destination.ts';
import { RollcallError } from '../kernel/errors.ts';

/**
 * Finds the source of a write key. Digests are compared, so that the time taken does not reveal how much of a key was
 * guessed right. A key that was right once is found without a digest.
 */
export function createWriteKeys(sources: () => readonly Source[]): (writeKey: string) => Source | undefined {
  let indexed: readonly Source[] | null = null;
  let byDigest = new Map<string, Source>();
  let shown = new Map<string, Source>();
  return (writeKey) => {
    const current = sources();
    if (current !== indexed) {
      byDigest = new Map(current.map((source) => [digest(source.writeKey), source]));
      shown = new Map();
      indexed = current;
    }
    const known = shown.get(writeKey);
    if (known !== undefined) return known;
    const source = byDigest.get(digest(writeKey));
    if (source !== undefined) shown.set(writeKey, source);
    return source;
  };
}

/** Carries its source, since the key was right. */
export class SourceDisabled extends RollcallError {
  readonly source: Source;

  constructor(source: Source) {
    super('source_disabled', 'The source of this write key is disabled.');
    this.source = source;
  }
}

export function unknownSource(): RollcallError {
  return new RollcallError('unknown_source', 'No source has this write key.');
}

/** Like `createWriteKeys`, but throws RollcallError `unknown_source` or `source_disabled`. */
export function createEnabledSource(sources: () => readonly Source[]): (writeKey: string) => Source {
  const findSource = createWriteKeys(sources);
  return (writeKey) => {
    const source = findSource(writeKey);
    if (source === undefined) throw unknownSource();
    if (!source.enabled) throw new SourceDisabled(source);
    return source;
  };
}

/** The name under which the server counts connections and memory of a source. */
export function ownerOf({ id }: Source): string {
  return `source ${id}`;
}

/** The user name of Basic credentials, with or without the colon; null when there is none. */
export function basicWriteKey(authorization: string | undefined): string | null {
  const credentials = /^basic +([A-Za-z0-9+/=_-]+) *$/i.exec(authorization ?? '')?.[1];
  if (credentials === undefined) return null;
  const [writeKey = ''] = Buffer.from(credentials, 'base64').toString().split(':', 1);
  return writeKey === '' ? null : writeKey;
}

/** For requests that can't set a header: `?writeKey=`. */
export function queryWriteKey(query: unknown): string | null {
  const writeKey = (query as { writeKey?: unknown } | null)?.writeKey;
  return typeof writeKey === 'string' && writeKey !== '' ? writeKey : null;
}

const SHOWN = /"writeKey"\s*:\s*("(?:[^"\\]|\\.){1,1000}")/g;
/** Most different keys to check: more than a batch has messages, as each may have its own. */
const MAX_SHOWN = 3_000;

/** Finds the write keys anywhere in JSON text. This takes a few milliseconds at most, whatever the text is. */
export function shownWriteKeys(json: string): readonly string[] {
  const shown = new Set<string>();
  for (const [, text = ''] of json.matchAll(SHOWN)) {
    shown.add(text);
    if (shown.size === MAX_SHOWN) break;
  }
  return [...shown].map(unquoted);
}

function unquoted(text: string): string {
  try {
    return JSON.parse(text) as string;
  } catch {
    return '';
  }
}

function digest(writeKey: string): string {
  return hash('sha256', writeKey, 'base64');
}
