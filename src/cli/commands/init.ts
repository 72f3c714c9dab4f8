import { appendFileSync, existsSync, lstatSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import type { Command } from 'commander';
import { readUtf8 } from '../../config/load.ts';
import { systemClock } from '../../kernel/clock.ts';
import { RollcallError } from '../../kernel/errors.ts';
import { ask, canAsk } from '../confirm.ts';
import type { CliContext } from '../context.ts';
import { inShell, jsonOption, wholeNumber } from '../options.ts';
import { note, print, printJson, type Terminal } from '../output/terminal.ts';
import { writing } from '../output/write-file.ts';
import { IGNORED, type Starter, starterFiles } from '../starter-files.ts';

interface InitOptions {
  readonly sample: boolean;
  readonly receiver: boolean;
  readonly port: number;
  readonly receiverPort: number;
  readonly yes?: boolean;
  readonly json?: boolean;
}

const HELP = `
Examples:
  $ rollcall init                       asks, and writes into this folder
  $ rollcall init my-project --yes      asks nothing
  $ rollcall init --no-receiver         without the app that receives webhooks

Nothing that exists is overwritten. An .env that is there gets the variables that it lacks or has empty.`;

const SECRET_BYTES = 24;

export function addInit(program: Command, context: CliContext): void {
  program
    .command('init [folder]')
    .description('start a project: configuration, secrets, sample data, an app that receives webhooks')
    .option('--no-sample', 'without sample orders and an audience over them')
    .option('--no-receiver', 'without the app that receives webhooks')
    .option('--port <n>', 'port of the service', wholeNumber(1, 65535), 8080)
    .option('--receiver-port <n>', 'port of the receiver app', wholeNumber(1, 65535), 3000)
    .option('-y, --yes', 'ask nothing')
    .addOption(jsonOption())
    .addHelpText('after', HELP)
    .action((folder: string | undefined, options: InitOptions) => init(folder ?? '.', options, context));
}

async function init(folder: string, options: InitOptions, { terminal }: CliContext): Promise<void> {
  const root = resolve(folder);
  // lstat also finds a dangling link.
  if (writing(() => lstatSync(join(root, 'rollcall.yaml'), { throwIfNoEntry: false }))) {
    throw new RollcallError('bad_usage', `${root} has a rollcall.yaml already. Name another folder.`);
  }
  const { port, receiverPort } = options;
  if (port === receiverPort) {
    throw new RollcallError('bad_usage', `--port and --receiver-port are both ${port}: each needs one of its own.`);
  }
  const starter = await answered(options, terminal);
  const written = writing(() => writeStarter(root, starter));
  if (options.json) return printJson(terminal, { folder: root, files: written });
  for (const path of written) note(terminal, `wrote ${join(folder, path)}`);
  print(terminal, `\n${nextSteps(folder, starter)}`);
}

/** Write the files that are missing, and return their paths. */
function writeStarter(root: string, starter: Starter): readonly string[] {
  mkdirSync(root, { recursive: true });
  const written = ignore(join(root, '.gitignore')) ? ['.gitignore'] : [];
  for (const [path, text] of starterFiles(starter)) if (write(join(root, path), text)) written.push(path);
  return written;
}

/** Ask the person at the terminal for choices that no flag makes, unless `--yes` is given. */
async function answered(options: InitOptions, terminal: Terminal): Promise<Starter> {
  const wanted = { sample: options.sample, receiver: options.receiver };
  if (!options.yes && !options.json && canAsk(terminal)) {
    const open = (Object.keys(wanted) as (keyof typeof wanted)[]).filter((part) => wanted[part]);
    const answers = await ask(
      terminal,
      open.map((part) => QUESTIONS[part]),
      true,
    );
    for (const [index, part] of open.entries()) wanted[part] = answers[index] ?? true;
  }
  const { port, receiverPort } = options;
  return { ...wanted, port, receiverPort, secret: () => systemClock.token(SECRET_BYTES) };
}

const QUESTIONS = {
  sample: 'Bring sample orders and an audience over them?',
  receiver: 'Bring an app that receives the webhooks?',
};

/** False if the file exists, which stays as it is. */
function write(path: string, text: string): boolean {
  mkdirSync(dirname(path), { recursive: true });
  try {
    // Other users of this machine must not read the secrets.
    writeFileSync(path, text, { flag: 'wx', mode: path.endsWith('.env') ? 0o600 : 0o644 });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return path.endsWith('.env') && define(path, text);
  }
}

/** Add the variables that are missing or empty in an app's file. False if there are none. */
function define(path: string, wanted: string): boolean {
  // Read it as the service does: a byte order mark is not part of a name, and other encodings are refused.
  const text = readUtf8(path, path);
  const known = parseEnv(text);
  const isMissing = (line: string) => line !== '' && !known[line.slice(0, line.indexOf('='))];
  return append(path, text, wanted.split('\n').filter(isMissing));
}

function ignore(path: string): boolean {
  const text = existsSync(path) ? readFileSync(path, 'utf8') : '';
  const lines = new Set(text.split(/\r?\n/));
  return append(
    path,
    text,
    IGNORED.filter((line) => !lines.has(line)),
  );
}

/** Append missing lines to a file that has this text. False if there are none. */
function append(path: string, text: string, missing: readonly string[]): boolean {
  if (missing.length === 0) return false;
  const separator = text === '' || text.endsWith('\n') ? '' : '\n';
  appendFileSync(path, `${separator}${missing.join('\n')}\n`);
  return true;
}

function nextSteps(folder: string, { receiver, sample }: Starter): string {
  const go = folder === '.' ? [] : [`  cd ${inShell(folder)}`];
  const hasKit = existsSync(resolve(folder, 'node_modules/@rollcall/receivers'));
  const steps = [
    ...(receiver && !hasKit ? ['  npm --prefix receiver install'] : []),
    ...(receiver ? ['  npm --prefix receiver start      # in a second terminal: prints what it verified'] : []),
    '  npx rollcall start               # collection, delivery and schedules',
  ];
  const next = sample ? 'Then change orders.csv and watch who enters and leaves.' : 'Then write your first audience.';
  return ['Next:', ...go, ...steps, '', next].join('\n');
}
