import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { program } from './programs.ts';

const MAIN = program('test/helpers/armed-main.ts');

export interface Ended {
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** The program in a process of its own. */
export interface Program {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  /** Where it listens; null if it ends without that. */
  readonly address: Promise<string | null>;
}

/**
 * Starts it, with little memory.
 *
 * @param fault - what is to happen in it, as `arm.ts` reads it
 * @param within - a command that replaces itself by the one that follows it
 */
export function launch(args: readonly string[], fault = '', within: readonly string[] = []): Program {
  const [file = '', ...rest] = [...within, process.execPath, '--max-old-space-size=160', MAIN, ...args];
  const child = spawn(file, rest, {
    env: { ...process.env, NODE_OPTIONS: '', FAULT: fault },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]).then(
    ([stdout, stderr, [code, signal]]) => ({ stdout, stderr, code, signal }),
  );
  const address = new Promise<string | null>((resolve) => {
    let said = '';
    child.stderr.on('data', (chunk: Buffer) => {
      said += chunk;
      const url = /answers at (http:\/\/[\d.]+:\d+)/.exec(said)?.[1];
      if (url !== undefined) resolve(url);
    });
    child.once('close', () => resolve(null));
  });
  return { child, ended, address };
}

/** Lines of the log, as JSON. */
export function logged({ stderr }: Pick<Ended, 'stderr'>): readonly Readonly<Record<string, unknown>>[] {
  return stderr
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));
}

/** Sends a track call; resolves to the status, null when the process is gone. */
export async function track(address: string, writeKey: string, messageId: string): Promise<number | null> {
  try {
    const response = await fetch(`${address}/v1/track`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa(`${writeKey}:`)}`, 'content-type': 'application/json' },
      body: JSON.stringify({ event: 'Bought', userId: 'u1', messageId }),
    });
    await response.arrayBuffer();
    return response.status;
  } catch {
    return null;
  }
}
