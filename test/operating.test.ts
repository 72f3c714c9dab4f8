import { mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import t, { type Test } from 'tap';
import { type Running, start } from './cli/helpers.ts';
import { freePort } from './helpers/free-port.ts';
import { actionsOf, difference, type Step, type Terminal } from './newcomer/page.ts';

const PAGE = new URL('../docs/operating.md', import.meta.url);
/** The name of the page's folder. */
const FOLDER = '/srv/rollcall';
const PORTS = ['3000', '8080'];
const ESCAPE = '\u001b';
/** Texts that a cursor wipes when it goes back to the start of its line. */
const WIPED = new RegExp(`.*${ESCAPE}\\[[012]?[GK]`, 'g');
/** Of runs and of deliveries: those of the page stand for those of here. */
const IDS = [/\b[0-9a-z]{8}-[0-9a-f]{8}\b/g, /\b[0-9a-f]{10}-[0-9a-z]{1,3}\b/g];

/** Types what the page has, within this process: no program is started. */
class Operator {
  private readonly folder: string;
  /** Port or run of the page → that of here. */
  private readonly names: Map<string, string>;
  private readonly jobs: Running[] = [];

  constructor(folder: string, ports: ReadonlyMap<string, string>) {
    this.folder = folder;
    this.names = new Map(ports);
  }

  async write(file: string, text: string): Promise<void> {
    await writeFile(join(this.folder, file), this.here(text));
  }

  /** As `difference` gives it. */
  async type({ command, output }: Step, terminal: Terminal | null): Promise<string | null> {
    const [program, ...args] = this.here(command).split(' ');
    if (program === 'kill') return this.kill(Number(args[0]?.slice(1)));
    if (args.at(-1) === '&') return this.begin(args.slice(0, -1));
    const running = start(args, { tty: terminal !== null, answer: `${terminal?.answer}\n` });
    const { code } = await running.finished;
    const said = `${this.asOnThePage(running.said())}${code === 0 ? '' : `\n(exit ${code})`}`;
    for (const pattern of IDS) {
      const ids = said.match(pattern) ?? [];
      for (const [place, id] of (output.join('\n').match(pattern) ?? []).entries())
        this.names.set(id, ids[place] ?? id);
    }
    return difference(output, said);
  }

  /** Resolves once another terminal shows the line. */
  async sees(line: string): Promise<void> {
    const parts = line.split('…').map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'));
    await this.jobs[0]?.stdout.match(new RegExp(`^${parts.join('.*')}$`, 'm'));
  }

  async end(): Promise<void> {
    while (this.jobs.length > 0) await this.kill(this.jobs.length);
  }

  private async begin(args: readonly string[]): Promise<null> {
    const job = start(args);
    this.jobs.push(job);
    await job.stderr.match(/(Listening on|Rollcall answers at) http/);
    return null;
  }

  private async kill(job: number): Promise<null> {
    await this.jobs.splice(job - 1, 1)[0]?.stop();
    return null;
  }

  private here(text: string): string {
    return [...this.names].reduce((typed, [page, here]) => typed.replaceAll(page, here), text);
  }

  private asOnThePage(text: string): string {
    // A progress bar is wiped again, within its line.
    const left = text.replaceAll(WIPED, '');
    const plain = stripVTControlCharacters(left).replaceAll(this.folder, FOLDER);
    return PORTS.reduce((page, port) => page.replaceAll(this.names.get(port) ?? port, port), plain);
  }
}

async function operator(t: Test): Promise<Operator> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'rollcall-operating-')));
  const before = process.cwd();
  process.chdir(folder);
  const ports = new Map<string, string>();
  for (const port of PORTS) ports.set(port, String(await freePort()));
  const one = new Operator(folder, ports);
  t.teardown(async () => {
    await one.end();
    process.chdir(before);
    await rm(folder, { recursive: true, force: true });
  });
  return one;
}

t.test('prints what the page shows for every command of the walkthrough', async (t) => {
  const one = await operator(t);
  let typed = 0;
  for (const action of actionsOf(await readFile(PAGE, 'utf8'))) {
    if (action.kind === 'write') await one.write(action.file, action.text);
    else if (action.kind === 'see') for (const line of action.lines) await one.sees(line);
    else {
      for (const step of action.steps) {
        typed += 1;
        t.equal(await one.type(step, action.terminal), null, step.command);
      }
    }
  }
  t.ok(typed > 50, `${typed} commands`);
});
