import { type ChildProcess, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Test } from 'tap';
import { freePort } from '../helpers/free-port.ts';
import { actionsOf, difference, type Step } from './page.ts';

/** Ports that pages name. */
const PORTS = ['8080', '3000'];
/** How long a line may take to appear, in milliseconds. */
const PATIENCE = 90_000;

const isRunning = ({ exitCode, signalCode }: ChildProcess) => exitCode === null && signalCode === null;

/** Sends it to all of a job; resolves once nothing of it runs. */
async function send(job: ChildProcess, signal: 'SIGINT' | 'SIGTERM'): Promise<void> {
  const closed = once(job, 'close');
  process.kill(-(job.pid as number), signal);
  await closed;
}

/** Someone who does what a page says, in a folder, with a Node of choice. */
export class Reader {
  readonly folder: string;
  /** All that was printed. */
  said = '';
  private readonly env: NodeJS.ProcessEnv;
  private readonly tarballs: Readonly<Record<string, string>>;
  /** Port of a page → port in use. */
  private readonly ports = new Map<string, string>();
  private readonly heard = new EventEmitter();
  private background: ChildProcess[] = [];
  /** The screens of the other terminals. */
  private shown = '';

  /**
   * @param node - folder of the Node to use
   * @param tarballs - package → path of its tarball
   */
  constructor(folder: string, node: string, tarballs: Readonly<Record<string, string>>) {
    this.folder = folder;
    this.tarballs = tarballs;
    const own = Object.entries(process.env).filter(
      ([name]) => !/^(NODE_OPTIONS|NODE_COMPILE_CACHE|TAP|_TAPJS|npm_(?!config_))/.test(name),
    );
    // Without the folder's own commands, nor those of the checkout: `rollcall` without `npx` is not found.
    const others = process.env['PATH']?.split(':').filter((each) => !each.endsWith('node_modules/.bin')) ?? [];
    const path = [node, ...others].join(':');
    const quiet = { npm_config_loglevel: 'error', npm_config_audit: 'false', npm_config_fund: 'false', NO_COLOR: '1' };
    this.env = { ...Object.fromEntries(own), ...quiet, PATH: path };
  }

  /** Copies the files of a folder, as someone does who tries an example. */
  async copy(from: string): Promise<void> {
    await this.choosePorts();
    for (const file of await readdir(from)) await this.write(file, null, await readFile(join(from, file), 'utf8'));
  }

  /** Does all that a page says. */
  async read(t: Test, markdown: string): Promise<void> {
    await this.choosePorts();
    try {
      for (const action of actionsOf(markdown)) {
        if (action.kind === 'write') await this.write(action.file, action.from, action.text);
        else if (action.kind === 'type') for (const step of action.steps) await this.type(t, step);
        else for (const line of action.lines) t.ok(await this.sees(line), `another terminal shows: ${line}`);
      }
    } finally {
      await this.end();
    }
  }

  /** Types one command; one that ends with `&` is a job of its own, which `kill` ends by its number, as an interactive shell does. */
  async type(t: Test, { command, output }: Step): Promise<void> {
    const typed = this.typed(command);
    if (/^kill( %\d+)+$/.test(typed)) {
      for (const [number] of typed.matchAll(/\d+/g)) await this.kill(Number(number));
      return;
    }
    if (typed.endsWith('&')) {
      await this.start(typed.slice(0, -1));
      return;
    }
    const child = spawn('bash', ['-c', typed], { cwd: this.folder, env: this.env, stdio: ['ignore', 'pipe', 'pipe'] });
    let printed = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (printed += chunk));
    const [code] = await once(child, 'close');
    this.said += printed;
    t.equal(code, 0, `${command}\n${printed}`);
    t.equal(difference(output, this.asOnThePage(printed)), null, command);
  }

  private async kill(job: number): Promise<void> {
    const child = this.background[job - 1];
    if (child === undefined || !isRunning(child)) throw new Error(`there is no job ${job} that runs`);
    await send(child, 'SIGTERM');
    // As in a shell: once none is left, the next one is the first.
    if (!this.background.some(isRunning)) this.background = [];
  }

  /** Ends what still runs, as Ctrl-C does in a terminal. */
  async end(): Promise<void> {
    const running = this.background.filter(isRunning);
    this.background = [];
    await Promise.all(running.map((child) => send(child, 'SIGINT')));
    this.shown = '';
  }

  private async choosePorts(): Promise<void> {
    for (const port of PORTS) if (!this.ports.has(port)) this.ports.set(port, String(await freePort()));
  }

  /** Resolves once what was started says that it is there. */
  private async start(command: string): Promise<void> {
    const options = { cwd: this.folder, env: this.env, detached: true };
    const child = spawn('bash', ['-c', command], { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
    this.background.push(child);
    let own = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        own += chunk;
        this.said += chunk;
        this.shown += chunk;
        this.heard.emit('line');
      });
    }
    child.once('close', () => this.heard.emit('line'));
    // npm says first which script it runs.
    await this.until(() => /^[^>\n]/m.test(own) || child.exitCode !== null);
    if (child.exitCode !== null) throw new Error(`${command} ended: ${own}`);
  }

  private async sees(line: string): Promise<boolean> {
    return this.until(() => this.asOnThePage(this.shown).split('\n').includes(line));
  }

  private async until(isSo: () => boolean): Promise<boolean> {
    const signal = AbortSignal.timeout(PATIENCE);
    while (!isSo()) {
      try {
        await once(this.heard, 'line', { signal });
      } catch {
        return false;
      }
    }
    return true;
  }

  private async write(file: string, from: string | null, text: string): Promise<void> {
    const path = join(this.folder, file);
    const before = from === null ? '' : await readFile(path, 'utf8');
    const place = from === null ? 0 : before.indexOf(`${from}\n`);
    if (place < 0) throw new Error(`${file} has no line ${from}`);
    await writeFile(path, before.slice(0, place) + this.typed(text));
  }

  /** With the ports that are free here, and packages from their tarballs. */
  private typed(text: string): string {
    let typed = text;
    for (const [page, here] of this.ports) typed = typed.replaceAll(page, here);
    if (/^npm install /.test(text)) {
      return text.replaceAll(/(?<= )@?rollcall(\/\w+)?(?= |$)/g, (name) => this.tarballs[name] ?? name);
    }
    const [service, receiver] = PORTS.map((port) => this.ports.get(port));
    return typed.replace(/rollcall init .*--yes$/, (init) => `${init} --port ${service} --receiver-port ${receiver}`);
  }

  private asOnThePage(text: string): string {
    let page = text;
    for (const [port, here] of this.ports) page = page.replaceAll(here, port);
    return page;
  }
}
