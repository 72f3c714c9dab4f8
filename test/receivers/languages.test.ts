import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { freePort } from '../helpers/free-port.ts';
import { root } from './helpers/clean.ts';
import { secret } from './helpers/samples.ts';

/** A program of docs/wire.md, and what builds and runs it. */
interface Language {
  readonly name: string;
  readonly file: string;
  /** Succeeds where the language is installed. */
  readonly probe: readonly [command: string, ...args: string[]];
  /** Only with `LANGUAGES=all`: it takes minutes, or packages of a registry. */
  readonly isLong?: boolean;
  readonly build?: readonly [command: string, ...args: string[]];
  run(port: number): readonly [command: string, ...args: string[]];
}

const JACKSON = ['core', 'databind', 'annotations'].map((part) => `/usr/share/java/jackson-${part}.jar`).join(':');
const CRATES = ['hex = "0.4"', 'hmac = "0.12"', 'serde_json = "1"', 'sha1 = "0.10"', 'tiny_http = "0.12"'];

const languages: readonly Language[] = [
  { name: 'Python', file: 'receiver.py', probe: ['python3', '--version'], run: () => ['python3', 'receiver.py'] },
  {
    name: 'Go',
    file: 'receiver.go',
    probe: ['go', 'version'],
    build: ['go', 'build', '-o', 'receiver', 'receiver.go'],
    run: () => ['./receiver'],
  },
  {
    name: 'PHP',
    file: 'receiver.php',
    probe: ['php', '--version'],
    run: (port) => ['php', '-S', `127.0.0.1:${port}`, 'receiver.php'],
  },
  { name: 'Ruby', file: 'receiver.rb', probe: ['ruby', '-rwebrick', '-e', '0'], run: () => ['ruby', 'receiver.rb'] },
  {
    name: 'Java',
    file: 'Receiver.java',
    probe: ['sh', '-c', `java --version && test -e ${JACKSON.split(':')[0]}`],
    run: () => ['java', '-cp', JACKSON, 'Receiver.java'],
  },
  {
    name: 'Rust',
    file: 'src/main.rs',
    probe: ['cargo', '--version'],
    isLong: true,
    build: ['cargo', 'build', '--quiet'],
    run: () => ['target/debug/receiver'],
  },
];

const wire = readFileSync(`${root}docs/wire.md`, 'utf8');
const codeOf = (name: string) =>
  new RegExp(`^### ${name}\\n.*?^\`\`\`${name.toLowerCase()}\\n(.*?)^\`\`\``, 'ms').exec(wire)?.[1] ?? '';

function skipOf({ name, probe: [command, ...args], isLong = false }: Language): string | false {
  if (isLong && process.env['LANGUAGES'] !== 'all') return `${name} takes minutes: npm run test:languages`;
  try {
    execFileSync(command, args, { stdio: 'ignore' });
    return false;
  } catch {
    return `${name} is not installed: npm run test:languages`;
  }
}

async function start(t: Test, { name, file, build, run }: Language) {
  const cwd = t.testdir({
    'log.txt': '',
    'Cargo.toml': `[package]\nname = "receiver"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n${CRATES.join('\n')}\n`,
  });
  mkdirSync(join(cwd, 'src'));
  writeFileSync(join(cwd, file), codeOf(name));
  // Builds of one language share what they compile, and nothing of tap's.
  const { NODE_OPTIONS: _, ...env } = process.env;
  if (build !== undefined) execFileSync(build[0], build.slice(1), { cwd, env, stdio: 'inherit' });
  const port = await freePort();
  const [command, ...args] = run(port);
  const own = { ...env, ROLLCALL_SECRET: secret, PORT: String(port) };
  const running = spawn(command, args, { cwd, env: own, stdio: ['ignore', 'pipe', 'pipe'] });
  const log = join(cwd, 'log.txt');
  const written = createWriteStream(log, { flags: 'a' });
  for (const stream of [running.stdout, running.stderr]) stream.pipe(written, { end: false });
  t.teardown(() => stop(running));
  await reachable(port, running);
  return { url: `http://127.0.0.1:${port}/hooks`, log };
}

async function stop(running: ChildProcess): Promise<void> {
  if (running.exitCode !== null || running.signalCode !== null) return;
  running.kill('SIGKILL');
  await once(running, 'exit');
}

/** Resolves once something listens there. */
async function reachable(port: number, running: ChildProcess): Promise<void> {
  for (;;) {
    if (running.exitCode !== null) throw new Error(`it ended with ${running.exitCode}`);
    const socket = connect(port, '127.0.0.1');
    const isThere = await new Promise<boolean>((resolve) => {
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    });
    socket.destroy();
    if (isThere) return;
    await wait(50);
  }
}

const check = `${root}receivers/check.ts`;

for (const language of languages) {
  const { name } = language;
  t.test(
    `${name}: the program of docs/wire.md does all that a receiver must do`,
    { skip: skipOf(language) },
    async (t) => {
      t.ok(codeOf(name), 'it stands in the document');
      const { url, log } = await start(t, language);
      const env = { ...process.env, ROLLCALL_SECRET: secret };
      const checking = spawn(process.execPath, [check, url, '--log', log, '--json'], { env });
      let printed = '';
      checking.stdout.setEncoding('utf8').on('data', (text) => {
        printed += text;
      });
      const [code] = await once(checking, 'close');
      const results = printed
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
      for (const each of results) t.not(each.verdict, 'wrong', `${each.name}: ${each.error ?? each.got}`);
      t.equal(code, 0);
      t.ok(results.some((each) => each.name.startsWith('order: ')));
      const advice = results.filter(({ verdict }) => verdict === 'advice').map((each) => `${each.name} ${each.got}`);
      t.comment(`${name}: advice on ${advice.length}: ${advice.join(', ')}`);
    },
  );
}
