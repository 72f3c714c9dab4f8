/** Fields that describe a message and its time: their text is shown. */
const SHOWN = new Set(['type', 'event', 'messageId', 'timestamp', 'originalTimestamp', 'sentAt', 'channel', 'version']);
const IDS = ['userId', 'anonymousId', 'previousId', 'groupId'];
/** Standard names of fields, which are shown even if they contain an id. */
const OURS = new Set([...SHOWN, ...IDS, 'name', 'properties', 'traits', 'context', 'integrations', 'writeKey']);
const ID = '[id]';
/** A shorter id may be part of other words. */
const SHORTEST_ID = 3;

const MAX_ENTRIES = 40;
const MAX_DEPTH = 4;
const MAX_TEXT = 100;
/** Keys of another form may be data. */
const KEY = /^[A-Za-z_$][\w $.-]{0,39}$/;

/**
 * The start of a message as people may see it: its outline, with only the texts that say what kind of message it is. Ids,
 * and values that may be personal or secret, are left out everywhere.
 */
export function sampleOf(message: unknown): string {
  return JSON.stringify(new Outline(idsIn(message)).of(message, 0)) ?? '';
}

/** The start of a body that is not JSON: letters become x, digits 0, and invisible characters a dot. */
export function maskedStart(bytes: Buffer): string {
  const text = bytes
    .subarray(0, 4 * MAX_TEXT)
    .toString()
    .slice(0, MAX_TEXT);
  return text
    .replaceAll(/\p{N}/gu, '0')
    .replaceAll(/[\p{L}\p{M}]/gu, 'x')
    .replaceAll(/[\p{C}\uFFFD]/gu, '.');
}

class Outline {
  private readonly ids: readonly string[];
  private entries = 0;

  constructor(ids: readonly string[]) {
    this.ids = ids;
  }

  of(value: unknown, depth: number): unknown {
    if (typeof value === 'string') return `[${value.length} character${value.length === 1 ? '' : 's'}]`;
    if (typeof value === 'number') return '[number]';
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return depth < MAX_DEPTH ? this.list(value, depth) : '[list]';
    return depth < MAX_DEPTH ? this.object(value as Record<string, unknown>, depth) : '[object]';
  }

  private list(list: readonly unknown[], depth: number): unknown[] {
    const items: unknown[] = [];
    for (const item of list) {
      if (this.isFull()) return [...items, `[${list.length - items.length} more]`];
      items.push(this.of(item, depth + 1));
    }
    return items;
  }

  private object(object: Record<string, unknown>, depth: number): object {
    const names = Object.keys(object);
    const fields: [name: string, value: unknown][] = [];
    for (const name of names) {
      if (this.isFull()) {
        fields.push(['…', `[${names.length - fields.length} more]`]);
        break;
      }
      const value = object[name];
      const isShown = depth === 0 && SHOWN.has(name) && isShort(value);
      fields.push([
        depth === 0 && OURS.has(name) ? name : this.key(name),
        isShown ? this.shown(value) : this.of(value, depth + 1),
      ]);
    }
    return Object.fromEntries(fields);
  }

  private key(name: string): string {
    return KEY.test(name) ? this.withoutIds(name) : '[key]';
  }

  private shown(value: string | number): string | number {
    const text = this.withoutIds(String(value));
    return text === String(value) ? value : text;
  }

  private withoutIds(text: string): string {
    return this.ids.reduce((text, id) => {
      if (id.length < SHORTEST_ID) return text === id ? ID : text;
      return text.replaceAll(id, ID);
    }, text);
  }

  private isFull(): boolean {
    this.entries += 1;
    return this.entries > MAX_ENTRIES;
  }
}

function isShort(value: unknown): value is string | number {
  return typeof value === 'number' || (typeof value === 'string' && value.length <= MAX_TEXT);
}

function idsIn(message: unknown): string[] {
  if (typeof message !== 'object' || message === null) return [];
  return IDS.flatMap((name) => {
    const id = (message as Record<string, unknown>)[name];
    return (typeof id === 'string' || typeof id === 'number') && id !== '' ? [String(id)] : [];
  });
}
