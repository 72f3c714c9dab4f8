import { relative, resolve } from 'node:path';
import type { Command } from 'commander';
import { RollcallError } from '../../kernel/errors.ts';
import type { CliContext } from '../context.ts';
import { jsonOption, wholeNumber } from '../options.ts';
import { hasColours, print } from '../output/terminal.ts';

interface DemoOptions {
  readonly once?: boolean;
  readonly port: number;
  readonly json?: boolean;
}

const HELP = `
It makes sample orders, an app that receives webhooks, and runs Rollcall between them. Orders arrive as
track calls, and the audiences are live: an order changes them within a second. Customers leave just_bought by time
alone, five seconds after their last order. Each line says what happened:

  shop      new orders arrived
  verified  the app verified signed webhooks about users who entered and left
  computed  Rollcall computed an audience for the first time, from the orders so far

Everything is kept in the folder, which you may delete afterwards. Its rollcall.yaml works with every command:

  $ rollcall runs -c rollcall-demo/rollcall.yaml
  $ rollcall events -c rollcall-demo/rollcall.yaml`;

export function addDemo(program: Command, context: CliContext): void {
  program
    .command('demo [folder]')
    .description('see it work: an example shop with its own data and receiver, in ./rollcall-demo')
    .option('--once', 'a few orders, what they change, a summary; otherwise it runs until Ctrl-C')
    .option('--port <n>', 'port of the service; another one if it is taken', wholeNumber(1, 65535), 8080)
    .addOption(jsonOption())
    .addHelpText('after', HELP)
    .action((folder: string | undefined, options: DemoOptions) => demo(folder ?? 'rollcall-demo', options, context));
}

async function demo(folder: string, options: DemoOptions, { terminal, setExitCode }: CliContext): Promise<void> {
  const { once = false, port, json = false } = options;
  const { signal } = terminal;
  // Loaded only here: it imports the whole service, which other commands should not wait for.
  const { runShop } = await import('../../../examples/shop/run.ts');
  const result = await runShop({
    folder: resolve(folder),
    once,
    port,
    json,
    print: (line) => print(terminal, line),
    isColoured: hasColours(terminal.stdout),
    signal,
    hints: ({ config }) => [
      '"shop" is an order; "verified" is what the app received as signed webhooks, and how soon.',
      'In a second terminal:',
      `npx rollcall why big_spenders customer-01 -c ${relative(process.cwd(), config)}`,
    ],
  });
  if (typeof result !== 'number') throw new RollcallError('bad_usage', `${result.problem} Name another folder.`);
  setExitCode(result);
}
