import { type Command, Option } from 'commander';
import chunk from 'lodash/chunk.js';
import type { App } from '../../app.ts';
import { systemClock } from '../../clock.ts';
import { RollcallError } from '../../errors.ts';
import { MESSAGE_TYPES, type MessageType } from '../../message.ts';
import type { DeadLetter, DeadLetterFilter, DeadReason, Replay } from '../../store/port.ts';
import type { Context } from '../context.ts';
import { instantOption, wholeNumber } from '../options.ts';
import { count, note, print, printJson, table } from '../terminal.ts';
import { type AppCommandOptions, addAppOptions, withApp } from '../with-app.ts';

const REASONS: readonly DeadReason[] = [
  'refused',
  'expired',
  'tls_untrusted',
  'address_refused',
  'destination_removed',
  'undeliverable',
];
const PAGE = 480;
/** Engines opened at once for the values of now. */
const AT_ONCE = 16;

interface LetterOptions extends AppCommandOptions {
  readonly destination?: string;
  readonly source?: string;
  readonly reason?: DeadReason;
  readonly type?: MessageType;
  readonly user?: string;
  readonly since?: number;
  readonly until?: number;
  readonly all?: boolean;
  readonly body?: boolean;
  readonly limit: number;
}

const LIST_HELP = `
With --json a dead letter is {"id","destination","source","type","userId","messageId","reason","status","attempts",
"firstAt","lastAt"}, and "body" with --body.`;

const REPLAY_HELP = `
Examples:
  $ rollcall dead-letters replay --destination crm --reason refused
  $ rollcall dead-letters replay 7f3a-12 7f3a-13

A membership change is sent with the value of now. A running service posts them; otherwise the next start does.`;

export function addDeadLetters(program: Command, context: Context): void {
  const command = program
    .command('dead-letters')
    .description('look at what could not be delivered, send it again, or give up');
  filtered(command.command('list', { isDefault: true }).description('show dead letters'))
    .option('-n, --limit <n>', 'at most so many', wholeNumber(1), 50)
    .option('--body', 'with their bodies')
    .addHelpText('after', LIST_HELP)
    .action((options: LetterOptions) => list(options, context));
  chosen(command.command('replay').description('send dead letters again'))
    .addHelpText('after', REPLAY_HELP)
    .action((ids: string[], options: LetterOptions) => replay(ids, options, context));
  chosen(command.command('drop').description('give dead letters up for good'))
    .addHelpText('after', '\nExample:\n  $ rollcall dead-letters drop --reason destination_removed')
    .action((ids: string[], options: LetterOptions) => drop(ids, options, context));
}

function filtered(command: Command): Command {
  return addAppOptions(command)
    .option('--destination <name>', 'only of this destination')
    .option('--source <id>', 'only of this source')
    .addOption(new Option('--reason <reason>', 'only dead for this reason').choices(REASONS))
    .addOption(new Option('--type <type>', 'only of this kind').choices(MESSAGE_TYPES))
    .option('--user <id>', 'only of this user')
    .option('--since <iso>', 'only dead since then', instantOption)
    .option('--until <iso>', 'only dead before then', instantOption);
}

function chosen(command: Command): Command {
  return filtered(command.argument('[id...]', 'ids, as the list shows them')).option('--all', 'all of them');
}

async function list(options: LetterOptions, { terminal }: Context): Promise<void> {
  await withApp(options, { terminal }, async ({ app }) => {
    const letters = await app.store.deadLetters({ ...filterOf(options), limit: options.limit });
    if (options.json) for (const letter of letters) printJson(terminal, line(letter, options.body));
    else if (letters.length > 0) print(terminal, letterTable(letters, options.body));
    else note(terminal, 'There are no dead letters.');
  });
}

async function replay(ids: readonly string[], options: LetterOptions, { terminal }: Context): Promise<void> {
  await withApp(options, { terminal }, async ({ app }) => {
    let replayed = 0;
    for await (const page of pages(app, ids, options)) {
      for (const letters of chunk(page, AT_ONCE)) {
        replayed += await app.store.replay(await Promise.all(letters.map((letter) => withCurrentBody(app, letter))));
      }
    }
    report(terminal, options, 'replayed', replayed);
  });
}

/** A membership change is sent again with the value of now. */
async function withCurrentBody(app: App, { id, conflict }: DeadLetter): Promise<Replay> {
  return { id, body: conflict === null ? null : await app.sync.currentBody(conflict) };
}

async function drop(ids: readonly string[], options: LetterOptions, { terminal }: Context): Promise<void> {
  await withApp(options, { terminal }, async ({ app }) => {
    let dropped = 0;
    for await (const page of pages(app, ids, options)) dropped += await app.store.drop(page.map(({ id }) => id));
    report(terminal, options, 'dropped', dropped);
  });
}

function report(terminal: Context['terminal'], { json }: LetterOptions, what: string, number: number): void {
  if (json) printJson(terminal, { [what]: number });
  else print(terminal, `${count(number, 'dead letter')} ${what}.`);
}

/** The letters that were asked for, a page at a time; those that die again meanwhile are left out. */
async function* pages(app: App, ids: readonly string[], options: LetterOptions): AsyncGenerator<readonly DeadLetter[]> {
  const filter = filterOf(options);
  if (ids.length === 0 && Object.keys(filter).length === 0 && !options.all) {
    throw new RollcallError('bad_usage', 'Name dead letters by id or by an option, or all of them with --all.');
  }
  const until = options.until ?? systemClock.now();
  const scope = { ...filter, until, ...(ids.length > 0 ? { ids } : {}) };
  for (let after: string | undefined; ; ) {
    const page = await app.store.deadLetters({ ...scope, ...(after === undefined ? {} : { after }), limit: PAGE });
    if (page.length > 0) yield page;
    if (page.length < PAGE) return;
    after = page.at(-1)?.id;
  }
}

function filterOf(options: LetterOptions): Omit<DeadLetterFilter, 'limit'> {
  const { destination, source, reason, type, user, since, until } = options;
  return {
    ...(destination === undefined ? {} : { destination }),
    ...(source === undefined ? {} : { source }),
    ...(reason === undefined ? {} : { reason }),
    ...(type === undefined ? {} : { type }),
    ...(user === undefined ? {} : { userId: user }),
    ...(since === undefined ? {} : { since }),
    ...(until === undefined ? {} : { until }),
  };
}

function line(letter: DeadLetter, withBody: boolean | undefined) {
  const { id, destination, source, type, userId, messageId, reason, status, attempts, firstAt, lastAt } = letter;
  return {
    id,
    destination,
    source,
    type,
    userId,
    messageId,
    reason,
    status,
    attempts,
    firstAt: firstAt === null ? null : new Date(firstAt).toISOString(),
    lastAt: new Date(lastAt).toISOString(),
    ...(withBody ? { body: JSON.parse(letter.body) } : {}),
  };
}

function letterTable(letters: readonly DeadLetter[], withBody: boolean | undefined): string {
  const header = [
    'id',
    'destination',
    'type',
    'user',
    'reason',
    'status',
    'attempts',
    'last',
    ...(withBody ? ['body'] : []),
  ];
  const rows = letters.map((letter) => [
    letter.id,
    letter.destination,
    letter.type,
    letter.userId ?? '-',
    letter.reason,
    String(letter.status ?? '-'),
    String(letter.attempts),
    new Date(letter.lastAt).toISOString(),
    ...(withBody ? [letter.body] : []),
  ]);
  return table(header, rows);
}
