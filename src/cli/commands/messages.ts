import { type Command, Option } from 'commander';
import { attemptLine, messageLine } from '../../admin/lines.ts';
import { resendMessages } from '../../admin/resend-messages.ts';
import { given } from '../../kernel/given.ts';
import { MESSAGE_TYPES, type MessageType } from '../../message-types.ts';
import { MESSAGE_STATES, type MessageRecord, type MessageState, type Store } from '../../store/port.ts';
import { asUser } from '../as-user.ts';
import { type CliContext, EXIT } from '../context.ts';
import { eachPage } from '../each-page.ts';
import { hint, instantOption, wholeNumber } from '../options.ts';
import { stateColours } from '../output/state-colours.ts';
import { table } from '../output/table.ts';
import { count, note, print, printJson, type Terminal } from '../output/terminal.ts';
import { printLines } from '../output/write-lines.ts';
import { noteUnknown } from '../unknown-names.ts';
import { type AppCommandOptions, addAppOptions, withApp } from '../with-app.ts';

interface MessageOptions extends AppCommandOptions {
  readonly user?: string;
  readonly message?: string;
  readonly type?: MessageType;
  readonly event?: string;
  readonly destination?: string;
  readonly state?: MessageState;
  readonly since?: number;
  readonly until?: number;
  readonly body?: boolean;
  readonly limit: number;
}

const HELP = `
Examples:
  $ rollcall messages --user u1 --destination crm
  $ rollcall messages --event 'Order Completed' --since 2026-01-31 --body --json

One line for each destination: waiting messages first, then dead ones, then delivered ones, the newest first in each.
The ids of delivered messages are kept for attempts.keep, bodies and names of events for messages.keep, which is 0
unless set. rollcall attempts --delivery ID shows each request.

With --json a message is {"id","messageId","source","type","event","userId","destination","state","at","kept"}, with
--body also "body" and "attempts".`;

const RESEND_HELP = `
Examples:
  $ rollcall messages --user u1 --destination crm
  $ rollcall resend 7f3a-12 7f3a-13

Delivered messages get a new Idempotency-Key, so that the receiver handles them once more; that needs their bodies,
which are kept for messages.keep. Dead letters are sent as by \`dead-letters replay\`. A membership change is sent with
the current value. A running service posts them; otherwise the next start does.

With --json the result is {"resent","superseded"}: queued, and outdated by a newer change.
Exit codes: 0 done, 1 nothing was sent, 2 bad usage or configuration.`;

export function addMessages(program: Command, context: CliContext): void {
  addAppOptions(program.command('messages').description('find messages, on their way and delivered'))
    .option('--user <id>', 'only of this user')
    .option('--message <id>', 'only with this message id')
    .addOption(new Option('--type <type>', 'only of this kind').choices(MESSAGE_TYPES))
    .option('--event <name>', 'only track events of this name')
    .option('--destination <name>', 'only to this destination')
    .addOption(new Option('--state <state>', 'only in this state').choices(MESSAGE_STATES))
    .option('--since <time>', 'only since then', instantOption)
    .option('--until <time>', 'only before then', instantOption)
    .option('--body', 'with their bodies and attempts')
    .option('-n, --limit <n>', 'at most this many', wholeNumber(1), 50)
    .addHelpText('after', HELP)
    .action((options: MessageOptions) => messages(options, context));
  addAppOptions(program.command('resend').description('send messages again, by the ids that `messages` shows'))
    .argument('<id...>', 'ids of deliveries')
    .addHelpText('after', RESEND_HELP)
    .action((ids: string[], options: AppCommandOptions) => resend(ids, options, context));
}

async function messages(options: MessageOptions, { terminal }: CliContext): Promise<void> {
  const { limit, json, body } = options;
  await withApp(options, { terminal }, async ({ app, config }) => {
    const found: MessageRecord[] = [];
    let dead: MessageRecord | undefined;
    // Page by page, since each search reads a bounded part of the store.
    const ask = async (limit: number, cursor: string | null) => {
      const { messages: rows, next } = await app.store.messagePage({ ...filterOf(options), limit }, cursor);
      return { rows, next };
    };
    const show = async (rows: readonly MessageRecord[]) => {
      dead ??= rows.find(({ state }) => state === 'dead');
      if (!json) found.push(...rows);
      else if (!body) await printLines(terminal, rows.map(messageLine));
      else for (const each of rows) await printLines(terminal, [await whole(app.store, each)]);
    };
    const { shown, isMore } = await eachPage(limit, ask, show, terminal.signal);
    if (found.length > 0) print(terminal, messageTable(found, terminal));
    if (shown === 0 && !json) note(terminal, 'No messages match.');
    if (body) for (const each of found) print(terminal, `\n${each.id}\n${await bodyOf(app.store, each)}`);
    if (isMore) note(terminal, 'There are more: a higher --limit shows them.');
    if (shown === 0) noteUnknown(terminal, config, options);
    if (dead) note(terminal, `Send one again: ${hint(options, `resend ${dead.id}`)}`);
  });
}

const filterOf = ({ user, message, type, event, destination, state, since, until }: MessageOptions) =>
  given({ userId: user, messageId: message, type, event, destination, state, since, until });

async function whole(store: Store, message: MessageRecord) {
  const kept = await store.message(message.id);
  const { attempts } = await store.attemptPage({ delivery: message.id, limit: 100 }, null);
  return { ...messageLine(message), body: kept && JSON.parse(kept.body), attempts: attempts.map(attemptLine) };
}

async function bodyOf(store: Store, { id }: MessageRecord): Promise<string> {
  return (await store.message(id))?.body ?? 'Its body is not kept.';
}

function messageTable(messages: readonly MessageRecord[], terminal: Terminal): string {
  const colour = stateColours(terminal);
  const rows = messages.map(({ id, messageId, at, destination, type, event, userId, state }) => [
    ...[id, new Date(at).toISOString(), destination, event ?? type, userId ?? '-', colour(state), messageId],
  ]);
  const header = ['id', 'at', 'destination', 'what', 'user', 'state', 'message'];
  return table(header, rows, { width: terminal.stdout.columns, flexible: ['destination', 'what', 'user', 'message'] });
}

async function resend(ids: readonly string[], options: AppCommandOptions, context: CliContext): Promise<void> {
  const { terminal, setExitCode } = context;
  await withApp(options, { terminal }, async ({ app }) => {
    const { store } = app;
    const work = () => resendMessages(ids, { store, currentBodies: (messages) => app.sync.currentBodies(messages) });
    const result = await asUser(app, { action: 'messages.resend', target: `${ids.length} by id` }, work);
    if (options.json) printJson(terminal, result);
    else {
      print(terminal, `${count(result.resent, 'message')} queued again.`);
      if (result.superseded > 0)
        note(
          terminal,
          `${count(result.superseded, 'message')} outdated by newer changes, or of people who are being deleted.`,
        );
    }
    if (result.resent === 0) setExitCode(EXIT.failed);
  });
}
