import type { Command } from 'commander';
import type { Person, PersonMembership } from '../../../jobs/index.ts';
import { personLine } from '../../admin/lines.ts';
import { type CliContext, EXIT } from '../context.ts';
import { instantOption } from '../options.ts';
import { inLine, print, printJson, type Terminal, timeIn } from '../output/terminal.ts';
import { type AppCommandOptions, addAppOptions, withApp } from '../with-app.ts';
import { changeText } from './why.ts';

interface PersonOptions extends AppCommandOptions {
  readonly at?: number;
}

const HELP = `
Examples:
  $ rollcall person customer-7
  $ rollcall person customer-7 --at 2026-11-01T12:00:00Z

It shows the audiences and traits of one user: since when, by which run or event, and for each destination the attempt
that reached it. rollcall why KEY USER shows the whole story in one of them. It exits with 1 if an engine does not
answer; the rest is shown.

With --json it is {"user","asOf","memberships","failures","deletion"}; a membership is {"key","kind","name","member",
"value","change"}, its change as in rollcall why; a failure is {"engine","code","message"}; deletion is
{"suppressed":[SOURCE…],"requests":[{"id","type","status","createdAt"}]}.`;

export function addPerson(program: Command, context: CliContext): void {
  addAppOptions(program.command('person').description('one user in all audiences and computed traits'))
    .argument('<user>', 'user id')
    .option('--at <time>', 'as it was then', instantOption)
    .addHelpText('after', HELP)
    .action((user: string, options: PersonOptions) => person(user, options, context));
}

async function person(user: string, options: PersonOptions, { terminal, setExitCode }: CliContext): Promise<void> {
  await withApp(options, { terminal }, async ({ app }) => {
    const found = await app.sync.person(user, { at: options.at });
    if (options.json) printJson(terminal, personLine(found));
    else print(terminal, describe(found, terminal));
    if (found.failures.length > 0) setExitCode(EXIT.failed);
  });
}

function describe({ user, asOf, memberships, failures, deletion }: Person, terminal: Terminal): string {
  const inside = memberships.filter(({ member }) => member === true);
  const [left, unknown] = [false, null].map((state) => memberships.filter(({ member }) => member === state));
  const then = asOf === null ? '' : ` at ${timeIn(terminal, asOf)}`;
  return [
    `${inLine(user)}${then}: in ${inside.length} of ${memberships.length} audiences and traits.`,
    ...inside.flatMap((each) => membershipText(each, terminal)),
    ...(left ?? []).filter(({ change }) => change !== null).flatMap((each) => membershipText(each, terminal)),
    ...listed('Not in, as far as is known', (left ?? []).filter(({ change }) => change === null).map(keyOf)),
    ...listed('No longer known', (unknown ?? []).map(keyOf)),
    ...listed('Messages are not taken from', deletion.suppressed),
    ...deletion.requests.map(({ id, type, status }) => `The request ${id} (${type}) is ${status}.`),
    ...failures.map(
      ({ engine, code, message }) => `The engine ${engine} does not answer (${code}): ${inLine(message)}`,
    ),
  ].join('\n');
}

const keyOf = ({ key }: PersonMembership) => key;

const listed = (what: string, names: readonly string[]) =>
  names.length === 0 ? [] : [`${what}: ${names.join(', ')}.`];

function membershipText({ key, value, member, change }: PersonMembership, terminal: Terminal): readonly string[] {
  const has = value === null ? '' : ` ${inLine(value)}`;
  const lines = change === null ? [] : changeText({ ...change, value: null }, terminal).map((line) => `  ${line}`);
  return [`${member ? '' : 'not in '}${key}${has}`, ...lines];
}
