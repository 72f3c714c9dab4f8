import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import type { Keeper, KeptMessages, SentBatch } from '../platform.ts';
import { SEPARATOR } from '../queue.ts';
import { BufferBatch } from './batch.ts';
import { systemClock } from './clock.ts';
import { OwnerProcesses, type SpoolOwner } from './process.ts';

type Leftover = Omit<KeptMessages, 'keeper'>;

interface Entry {
  fd: number;
  name: SpoolName;
  bytes: number;
}

/** Parts of a file name: its owner and its place in the order. */
interface SpoolName {
  /** Hash of the write key: several clients may share a folder, and none sends another's messages. */
  key: string;
  since: string;
  client: string;
  sequence: string;
  /** The owning process; pid 0 means none. */
  owner: SpoolOwner;
}

/** Makes a folder and those above it, for their owner alone. Node's `recursive` never returns below `/proc`. */
function makeFolder(folder: string): void {
  if (fs.existsSync(folder)) return;
  const above = path.dirname(folder);
  if (above !== folder) makeFolder(above);
  try {
    fs.mkdirSync(folder, 0o700);
  } catch (error) {
    // Another process may have been faster.
    if (!fs.existsSync(folder)) throw error;
  }
}

/**
 * Keeps each batch in a file of the folder until it is settled. A message has reached the operating system before the
 * call that queued it returns: it survives any end of the process, but not a loss of power.
 *
 * Processes of one machine may share the folder. Each takes over only files whose process has ended.
 */
export class Spool implements Keeper {
  readonly #folder: string;
  readonly #key: string;
  readonly #client = systemClock.uuid().slice(0, 8);
  readonly #entries = new Map<SentBatch, Entry>();
  readonly #processes: OwnerProcesses;
  #sequence = 0;
  #broken = false;

  /** Creates the folder. @throws if that is impossible. */
  constructor(folder: string, writeKey: string, processes = new OwnerProcesses()) {
    this.#folder = folder;
    this.#processes = processes;
    this.#key = createHash('sha256').update(writeKey).digest('hex').slice(0, 16);
    makeFolder(folder);
  }

  /**
   * Takes over the messages that ended processes left for this write key, in the order in which they were queued.
   *
   * @param now the time from which `retryFor` counts for them, milliseconds since 1970
   */
  adopt(now: number): Leftover {
    const leftover: Leftover = { batches: [], damaged: 0 };
    for (const file of fs.readdirSync(this.#folder).sort()) {
      const name = parse(file);
      if (!name || name.key !== this.#key) continue;
      if (name.owner.pid !== 0 && !this.#processes.isGone(name.owner)) continue;
      const mine = { ...name, owner: this.#processes.claim() };
      if (!this.#rename(name, mine)) continue;
      this.#restore(mine, now, leftover);
    }
    return leftover;
  }

  append(batch: SentBatch, text: string): void {
    this.#attempt(() => {
      const line = Buffer.from(text + SEPARATOR);
      const entry = this.#entries.get(batch) ?? this.#create(batch);
      let written = 0;
      try {
        while (written < line.length) written += fs.writeSync(entry.fd, line, written);
        entry.bytes += written;
      } catch (error) {
        fs.ftruncateSync(entry.fd, entry.bytes);
        throw error;
      }
    });
  }

  forget(batch: SentBatch): void {
    const entry = this.#entries.get(batch);
    if (!entry) return;
    this.#entries.delete(batch);
    this.#attempt(() => {
      fs.closeSync(entry.fd);
      fs.unlinkSync(this.#path(entry.name));
    });
  }

  release(): void {
    for (const { fd, name } of this.#entries.values()) {
      this.#attempt(() => {
        fs.closeSync(fd);
        this.#rename(name, { ...name, owner: { ...name.owner, pid: 0 } });
      });
    }
    this.#entries.clear();
  }

  #create(batch: SentBatch): Entry {
    const name: SpoolName = {
      key: this.#key,
      since: String(batch.since).padStart(13, '0'),
      client: this.#client,
      sequence: String(this.#sequence++).padStart(10, '0'),
      owner: this.#processes.claim(),
    };
    const entry = { fd: fs.openSync(this.#path(name), 'a', 0o600), name, bytes: 0 };
    this.#entries.set(batch, entry);
    return entry;
  }

  #restore(name: SpoolName, now: number, leftover: Leftover): void {
    const { lines, damaged } = whole(fs.readFileSync(this.#path(name), 'utf8'));
    leftover.damaged += damaged;
    const batch = BufferBatch.restore(now, Buffer.from(lines.join('')), lines.length);
    this.#entries.set(batch, { fd: fs.openSync(this.#path(name), 'a'), name, bytes: batch.bytes });
    if (lines.length > 0) leftover.batches.push(batch);
    else this.forget(batch);
  }

  /** @returns false if another process was faster */
  #rename(from: SpoolName, to: SpoolName): boolean {
    try {
      fs.renameSync(this.#path(from), this.#path(to));
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
      throw error;
    }
  }

  #path({ key, since, client, sequence, owner }: SpoolName): string {
    const parts = [key, since, client, sequence, owner.pid, owner.scope, owner.started, owner.claimed];
    return path.join(this.#folder, `${parts.join('-')}.spool`);
  }

  /** A disk that fails must not stop the host: messages stay in memory and are sent from there. */
  #attempt(work: () => void): void {
    try {
      work();
    } catch (error) {
      if (!this.#broken) process.emitWarning(`the spool does not keep messages: ${error}`, 'RollcallWarning');
      this.#broken = true;
    }
  }
}

const FILE = /^([0-9a-f]{16})-(\d+)-([0-9a-f]{8})-(\d+)-(\d+)-([0-9a-f]+)-(\d+)-(\d+)\.spool$/;

function parse(file: string): SpoolName | undefined {
  const match = FILE.exec(file);
  if (!match) return undefined;
  const [, key = '', since = '', client = '', sequence = '', pid, scope = '', started, claimed] = match;
  const owner = { pid: Number(pid), scope, started: Number(started), claimed: Number(claimed) };
  return { key, since, client, sequence, owner };
}

/** The complete messages, each with its separator. */
function whole(text: string): { lines: string[]; damaged: number } {
  const lines = text.split(/(?<=\n)/);
  const kept = lines.filter((line) => line.endsWith(',\n') && isJson(line.slice(0, -2)));
  return { lines: kept, damaged: lines.length - kept.length - (text === '' ? 1 : 0) };
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
