import { type Command, Option } from 'commander';
import { RollcallError } from '../../kernel/errors.ts';
import { nothingNamed } from '../../kernel/spelling.ts';
import { MESSAGE_TYPES } from '../../message-types.ts';
import { type CliContext, EXIT } from '../context.ts';
import { configOption, jsonOption, notEmpty, wholeNumber } from '../options.ts';
import { answerText } from '../output/answer-text.ts';
import { stateColours } from '../output/state-colours.ts';
import { note, print, printJson } from '../output/terminal.ts';
import { type TestBodyOptions, testBodies } from '../test-bodies.ts';
import { testable, testDestination } from '../test-event.ts';

const HELP = `
Examples:
  $ rollcall test crm                                           a track event
  $ rollcall test crm --type delete                             any kind
  $ rollcall test crm --audience big_spenders                   a made-up user enters the audience
  $ rollcall test crm --audience big_spenders --user customer-7 what a real user is now
  $ rollcall test crm --audience big_spenders --sample 3        what three members are now
  $ rollcall test crm --batch 100                               many messages in one request

It posts a track event "Rollcall Test" of the user rollcall-test, signed as deliveries are, to each endpoint at once
and prints the answers. It bypasses the queue, the windows and the attempt log, and also reaches a destination that is
disabled or paused. A change has no sequence, and is posted in each form that the destination gets. With --user or
--sample it has context.test: the receiver kit runs no handler for it, and answers "unhandled", unless its option test
is true. Only these open the store. A sample is of the first members by id, and one request if it is batched. The hooks
of alerts are destinations named rollcall:alerts:NAME: they get an alert marked as a test.

If a receiver answers 401, the event is posted again, signed as usual mistakes would sign it. If it accepts one of
these, the advice names the mistake.

With --json an endpoint is {"destination","endpoint","url","outcome","status","error","ms","signatures","response",
"advice"}. Exit codes: 0 every endpoint accepted it, 1 one did not, 2 bad usage or configuration.`;

interface TestOptions extends TestBodyOptions {
  readonly json?: boolean;
}

/** The most messages that a batch of the sender has. */
const BATCH_LIMIT = 4096;
/** The most members of a sample: each is looked up. */
const SAMPLE_LIMIT = 100;

export function addTest(program: Command, context: CliContext): void {
  program
    .command('test')
    .description('post a signed test message to a destination, and print the answer')
    .argument('<destination>', 'its name')
    .addOption(new Option('--type <type>', 'kind of message').choices(MESSAGE_TYPES))
    .addOption(new Option('--audience <key>', 'a change of this audience or trait').conflicts('type'))
    .option('--user <id>', 'user id of the message; with --audience, what that user is now', notEmpty)
    .addOption(
      new Option('--sample <n>', 'with --audience: what this many members are now')
        .argParser(wholeNumber(1, SAMPLE_LIMIT))
        .conflicts(['type', 'user', 'batch']),
    )
    .option('--batch <n>', 'this many messages in one request', wholeNumber(1, BATCH_LIMIT))
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
  if (options.sample !== undefined && options.audience === undefined)
    throw new RollcallError('bad_usage', '--sample goes with --audience only.');
  const requests = await testBodies(options, config, destination, terminal);
  if (requests !== undefined && !config.destinations.includes(destination)) {
    throw new RollcallError('bad_usage', `${name} gets alerts only: leave out the options of messages.`);
  }
  const colour = stateColours(terminal);
  const results = [];
  for (const bodies of requests ?? [undefined]) results.push(...(await testDestination(destination, config, bodies)));
  for (const result of results) {
    const { url, outcome, ms, signatures, response, advice } = result;
    if (advice !== null) setExitCode(EXIT.failed);
    if (options.json) {
      printJson(terminal, result);
      continue;
    }
    const signed = signatures.length > 0 ? `signed by ${signatures.join(' and ')}` : 'not signed';
    print(terminal, `${url}: ${colour(outcome, answerText(result))} in ${ms} ms, ${signed}`);
    if (response !== null) print(terminal, `  it answered: ${oneLine(response)}`);
    if (advice !== null) note(terminal, `  ${advice}${advice.endsWith('?') ? '' : '.'}`);
  }
}

const WIDTH = 200;

/** The start of a text in one line, without control characters. */
function oneLine(text: string): string {
  return text
    .slice(0, WIDTH)
    .replaceAll(/[\p{C}\s]+/gu, ' ')
    .trim();
}
