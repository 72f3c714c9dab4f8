import type { Command } from 'commander';
import { RollcallError } from '../../kernel/errors.ts';
import { nothingNamed } from '../../kernel/spelling.ts';
import { type CliContext, EXIT } from '../context.ts';
import { configOption, jsonOption } from '../options.ts';
import { stateColours } from '../output/state-colours.ts';
import { note, print, printJson } from '../output/terminal.ts';
import { testable, testDestination } from '../test-event.ts';

const HELP = `
Example:
  $ rollcall test crm -c rollcall.yaml

It posts a track event "Rollcall Test" of the user rollcall-test, signed as deliveries are, to each endpoint at once
and prints the answers. It bypasses the queue, the windows and the attempt log, and also reaches a destination that is
disabled or paused. The store is not opened. The hooks of alerts are destinations named rollcall:alerts:NAME: they get
an alert marked as a test.

With --json an endpoint is {"destination","endpoint","url","outcome","status","error","ms","signatures","response",
"advice"}. Exit codes: 0 every endpoint accepted it, 1 one did not, 2 bad usage or configuration.`;

interface TestOptions {
  readonly config: string;
  readonly json?: boolean;
}

export function addTest(program: Command, context: CliContext): void {
  program
    .command('test')
    .description('post a signed test event to a destination, and print the answer')
    .argument('<destination>', 'its name')
    .addOption(configOption())
    .addOption(jsonOption())
    .addHelpText('after', HELP)
    .action((name: string, options: TestOptions) => test(name, options, context));
}

async function test(name: string, options: TestOptions, { terminal, setExitCode }: CliContext): Promise<void> {
  const { loadConfig } = await import('../../config/load.ts');
  const config = loadConfig(options.config);
  const destination = testable(config).find((each) => each.name === name);
  if (!destination) {
    const known = testable(config).map((each) => each.name);
    throw new RollcallError('bad_usage', nothingNamed('destination', [name], known));
  }
  const colour = stateColours(terminal);
  for (const result of await testDestination(destination, config)) {
    const { url, outcome, status, error, ms, signatures, response, advice } = result;
    if (advice !== null) setExitCode(EXIT.failed);
    if (options.json) {
      printJson(terminal, result);
      continue;
    }
    const signed = signatures.length > 0 ? `signed by ${signatures.join(' and ')}` : 'not signed';
    print(terminal, `${url}: ${colour(outcome, cameBack(status, error))} in ${ms} ms, ${signed}`);
    if (response !== null) print(terminal, `  it answered: ${oneLine(response)}`);
    if (advice !== null) note(terminal, `  ${advice}${advice.endsWith('?') ? '' : '.'}`);
  }
}

/** The status, and the error if the answer to a batch rejects what its status accepts. */
function cameBack(status: number | null, error: string | null): string {
  if (status === null) return String(error);
  return error === null || error === `status_${status}` ? String(status) : `${status} ${error}`;
}

const WIDTH = 200;

/** The start of a text in one line, without control characters. */
function oneLine(text: string): string {
  return text
    .slice(0, WIDTH)
    .replaceAll(/[\p{C}\s]+/gu, ' ')
    .trim();
}
