import { type ChildProcess, fork } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { program } from '../../helpers/programs.ts';
import type { AppOptions } from './app.ts';

/** One app of the fleet, which may be killed, started again, and stopped for a while. */
export interface App {
  readonly url: string;
  /** Resolves when so many more handlers have begun, or ended. */
  next(what: 'began' | 'ended', count: number): Promise<void>;
}

interface Member extends App {
  readonly process: ChildProcess;
}

/** Three apps, or as many as are wanted, on one database. */
export class Fleet {
  /** Errors that `on.error` of the apps got. */
  readonly errors = new Map<string, number>();
  /** Apps that ended by themselves. */
  readonly ended: string[] = [];
  private readonly options: AppOptions;
  private readonly events = new EventEmitter();
  private readonly members: Member[] = [];

  constructor(options: AppOptions) {
    this.options = options;
  }

  get apps(): readonly App[] {
    return this.members;
  }

  private hear(error: string): void {
    this.errors.set(error, (this.errors.get(error) ?? 0) + 1);
    this.events.emit('error heard');
  }

  /** Resolves when `on.error` of an app has heard this. */
  async heard(error: string): Promise<void> {
    while (!this.errors.has(error)) await once(this.events, 'error heard');
  }

  async start(count: number): Promise<void> {
    const started = await Promise.all(Array.from({ length: count }, () => this.startOne()));
    this.members.push(...started);
  }

  private async startOne(): Promise<Member> {
    const process = fork(program('test/receivers/fleet/app.ts'), [JSON.stringify(this.options)], { execArgv: [] });
    const events = new EventEmitter();
    process.on('message', (message) => {
      if (message === 'began' || message === 'ended') events.emit(message);
      else if (typeof message === 'string') this.hear(message);
    });
    process.on('exit', (code, signal) => {
      if (signal !== 'SIGKILL') this.ended.push(`${code ?? signal}`);
    });
    const [port] = await once(process, 'message');
    return {
      process,
      url: `http://127.0.0.1:${port}/hooks`,
      next(what, count) {
        const { promise, resolve } = Promise.withResolvers<void>();
        let left = count;
        // Counted as they come: several may come at once.
        const hear = () => {
          left -= 1;
          if (left > 0) return;
          events.off(what, hear);
          resolve();
        };
        events.on(what, hear);
        return promise;
      },
    };
  }

  /** Ends an app as `kill -9` does, and starts another in its place. */
  async replace(place: number): Promise<void> {
    const { process } = this.members[place] as Member;
    process.kill('SIGKILL');
    this.members[place] = await this.startOne();
  }

  /** Stops an app in whatever it does; the returned function lets it go on, if it still lives, and handlers that hold. */
  suspend(place: number): () => void {
    const { process } = this.members[place] as Member;
    process.kill('SIGSTOP');
    return () => {
      process.kill('SIGCONT');
      if (process.connected) process.send('go on');
    };
  }

  close(): void {
    for (const { process } of this.members) process.kill('SIGKILL');
  }
}
