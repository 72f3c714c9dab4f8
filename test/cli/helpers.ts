import { once } from 'node:events';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import type { Test } from 'tap';
import { runProgram } from '../../src/cli/program.ts';
import '../helpers/own-colours.ts';
import { storeUrl } from '../helpers/store.ts';

// As the program's main file does.
process.umask(0o077);

export interface Finished {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Keeps what is written, and tells of it. */
class Capture extends Writable {
  text = '';
  isTTY = false;
  columns?: number;
  private ended = false;
  private readonly transcript: string[];

  constructor(transcript: string[]) {
    super();
    this.transcript = transcript;
  }

  /** Nothing more will come: whoever still waits for a match has waited for nothing. */
  finish(): void {
    this.ended = true;
    this.emit('text');
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk;
    this.transcript.push(`${chunk}`);
    done();
    this.emit('text');
  }

  /** Resolves to the first match, now or later; rejects once the command has ended without one. */
  async match(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this.text);
      if (match) return match;
      if (this.ended) throw new Error(`The command ended without ${pattern}. It had said: ${this.text}`);
      await once(this, 'text');
    }
  }
}

/** A command that goes on until it is stopped. */
export interface Running {
  readonly stdout: Capture;
  readonly stderr: Capture;
  /** Texts written to both, in that order. */
  said(): string;
  readonly finished: Promise<Finished>;
  /** As Ctrl-C does. */
  stop(): Promise<Finished>;
}

/** Starts a command within this process; with `tty` as if people watched, who answer when they are asked. */
export function start(args: readonly string[], { tty = false, answer = '', columns = 200 } = {}): Running {
  const stopping = new AbortController();
  const transcript: string[] = [];
  const stdout = new Capture(transcript);
  const stderr = new Capture(transcript);
  stdout.isTTY = tty;
  if (tty) stdout.columns = columns;
  stderr.isTTY = tty;
  const stdin = Object.assign(Readable.from([answer]), { isTTY: tty });
  const running = runProgram(args, { stdin, stdout, stderr, signal: stopping.signal });
  const finished = running.then((code) => {
    stdout.finish();
    stderr.finish();
    return { code, stdout: stdout.text, stderr: stderr.text };
  });
  return {
    stdout,
    stderr,
    said: () => transcript.join(''),
    finished,
    stop() {
      stopping.abort();
      return finished;
    },
  };
}

/** Runs a command to its end. */
export function rollcall(args: readonly string[]): Promise<Finished> {
  return start(args).finished;
}

/** Files of stores and engines that were made in a folder. */
export async function filesOf(folder: string): Promise<readonly string[]> {
  return (await readdir(folder)).filter((name) => /db/.test(name));
}

/** A command's output, parsed as JSON lines. */
export function jsonLines<T>({ stdout }: Pick<Finished, 'stdout'>): readonly T[] {
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
}

export interface Listener {
  readonly url: string;
  /** Ends it; resolves to what had arrived. */
  stop(): Promise<readonly Request[]>;
}

export interface Request {
  readonly body: {
    readonly type: string;
    readonly userId: string;
    readonly traits?: Readonly<Record<string, unknown>>;
  };
  readonly signature: string;
  readonly status: number;
}

/** `rollcall listen --json` on a free port. */
export async function listen(t: Test, ...args: readonly string[]): Promise<Listener> {
  const running = start(['listen', '--port', '0', '--json', ...args]);
  t.teardown(() => running.stop());
  const [url] = await running.stderr.match(/http:\S+:\d+/);
  return { url, stop: async () => jsonLines<Request>(await running.stop()) };
}

/** A folder with a configuration whose audience reads `orders.csv`. */
export async function workspace(t: Test, url: string, more = ''): Promise<{ folder: string; config: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-cli-'));
  const before = process.cwd();
  t.teardown(async () => {
    // Commands move to the folder of their configuration.
    process.chdir(before);
    await rm(folder, { recursive: true, force: true });
  });
  const config = join(folder, 'rollcall.yaml');
  await writeFile(
    config,
    `${more.includes('store:') ? '' : `store: ${storeUrl(t)}`}
network: { allow: [127.0.0.0/8] }
listen: { port: 0 }
sources: [{ id: personas, writeKey: personas-key }]
destinations:
  - { name: crm, sources: [personas], sharedSecret: s3cret, webhookUrl: "${url}/hooks" }
audiences:
  - name: Big Spenders
    source: personas
    sql: select customer as user_id from read_csv('orders.csv') group by 1 having sum(amount) > 50
    guard: { maxExits: 50% }
${more}`,
  );
  await orders(folder, { ada: 60, bob: 10, cyd: 70 });
  return { folder, config };
}

export async function orders(folder: string, amounts: Readonly<Record<string, number>>): Promise<void> {
  const rows = Object.entries(amounts).map((row) => row.join(','));
  await writeFile(join(folder, 'orders.csv'), ['customer,amount', ...rows, ''].join('\n'));
}
