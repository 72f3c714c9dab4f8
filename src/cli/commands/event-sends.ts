import { type Command, Option } from 'commander';
import { sendLine } from '../../admin/lines.ts';
import { systemClock } from '../../kernel/clock.ts';
import { RollcallError } from '../../kernel/errors.ts';
import { nothingNamed } from '../../kernel/spelling.ts';
import { CLIENT_TYPES, type ClientType } from '../../message-types.ts';
import type { SendStatus } from '../../store/port.ts';
import { asUser } from '../as-user.ts';
import { confirm } from '../confirm.ts';
import type { CliContext } from '../context.ts';
import { hint, instantOption, wholeNumber } from '../options.ts';
import { stateColours } from '../output/state-colours.ts';
import { table } from '../output/table.ts';
import { count, note, print, printJson, type Terminal } from '../output/terminal.ts';
import { type AppCommandOptions, addAppOptions, withApp } from '../with-app.ts';

interface SendCommandOptions extends AppCommandOptions {
  readonly to: string;
  readonly since: number;
  readonly until?: number;
  readonly type?: ClientType;
  readonly event?: string;
  readonly source?: string;
  readonly yes?: boolean;
}

interface ListOptions extends AppCommandOptions {
  readonly limit: number;
}

const SEND_HELP = `
Examples:
  $ rollcall events send --to warehouse --since 2026-01-01 --until 2026-02-01
  $ rollcall events send --to mailer --since 2026-01-01 --event "Order Completed" --source shop --yes

It sends what the destination would have got had it been connected: its sources, types and events apply, and the
integrations of each event. Times are those of receipt. The events are counted first, and you are asked. A running
service carries the order out, behind live messages; otherwise the next start does. Bodies have context.replay.

With --json the answer is the send, as of \`rollcall events sends\`.`;

const LIST_HELP = `
With --json a send is {"id","destination","since","until","type","event","source","state","total","sent",
"deliveries","waitsFor","startedAt","finishedAt"}. Its state is sending until all of it is queued, then done; or
cancelled. Fewer are sent than counted if users were suppressed or deleted.`;

const CANCEL_HELP = `
Nothing more is queued from then on. What is queued already is still delivered: 50,000 events at most.`;

export function addEventSends(events: Command, context: CliContext): void {
  addAppOptions(events.command('send').description('send past events to a destination'))
    .requiredOption('--to <destination>', 'its name')
    .requiredOption('--since <time>', 'only events received since then', instantOption)
    .option('--until <time>', 'only events received before then; now unless given', instantOption)
    .addOption(new Option('--type <type>', 'only of this kind').choices(CLIENT_TYPES))
    .option('--event <name>', 'only track events with this name')
    .option('--source <id>', 'only of this source')
    .option('-y, --yes', 'do not ask')
    .addHelpText('after', SEND_HELP)
    .action((options: SendCommandOptions) => send(options, context));
  addAppOptions(events.command('sends').description('show sends of past events, newest first, or one'))
    .argument('[id]', 'of one send')
    .option('-n, --limit <n>', 'at most this many', wholeNumber(1, 10_000), 20)
    .addHelpText('after', LIST_HELP)
    .action((id: string | undefined, options: ListOptions) => list(id, options, context));
  addAppOptions(events.command('cancel').description('cancel a send of past events'))
    .argument('<id>', 'of the send')
    .addHelpText('after', CANCEL_HELP)
    .action((id: string, options: AppCommandOptions) => cancel(id, options, context));
}

async function send(options: SendCommandOptions, { terminal }: CliContext): Promise<void> {
  await withApp(options, { terminal }, async ({ app, config }) => {
    const { to, since, until = systemClock.now(), type = null, event = null, source = null } = options;
    const destination = config.destinations.find(({ name }) => name === to);
    if (!destination) {
      const names = config.destinations.map(({ name }) => name);
      throw new RollcallError('bad_usage', nothingNamed('destination', [to], names));
    }
    if (source !== null && !destination.sources.includes(source)) {
      throw new RollcallError('bad_usage', `${to} is not connected to a source ${source}.`);
    }
    const order = { destination: to, since, until, type, event, source };
    const events = await app.sends.count(order);
    if (events === 0) return note(terminal, `There are no such events for ${to}.`);
    const span = `${new Date(since).toISOString()} to ${new Date(until).toISOString()}`;
    const question = `${count(events, 'event')} received from ${span} will be sent to ${to}.`;
    if (!(await confirm(terminal, question, options.yes))) return;
    const { id } = await asUser(app, { action: 'events.send', target: to }, () => app.sends.begin(order));
    show([await app.sends.find(id)], options, terminal);
    note(terminal, `A running service sends them. ${hint(options, `events sends ${id}`)} shows how far it is.`);
  });
}

async function list(id: string | undefined, options: ListOptions, { terminal }: CliContext): Promise<void> {
  await withApp(options, { terminal }, async ({ app: { sends } }) => {
    const found = id === undefined ? await sends.list({ limit: options.limit }) : [await sends.find(id)];
    if (found.length === 0 && !options.json) note(terminal, 'No past events were sent.');
    else show(found, options, terminal);
  });
}

async function cancel(id: string, options: AppCommandOptions, { terminal }: CliContext): Promise<void> {
  await withApp(options, { terminal }, async ({ app }) => {
    const status = await asUser(app, { action: 'events.cancel', target: id }, () => app.sends.cancel(id));
    show([status], options, terminal);
  });
}

function show(sends: readonly SendStatus[], { json }: AppCommandOptions, terminal: Terminal): void {
  const lines = sends.map(sendLine);
  if (json) {
    for (const line of lines) printJson(terminal, line);
    return;
  }
  const colour = stateColours(terminal);
  const header = ['id', 'destination', 'since', 'until', 'only', 'state', 'sent', 'of', 'delivered', 'dead'];
  const rows = lines.map(({ id, destination, since, until, type, event, source, state, sent, total, deliveries }) => [
    ...[id, destination, since, until, [source, event ?? type].filter((each) => each !== null).join(' ') || '-'],
    ...[colour(state), String(sent), String(total), String(deliveries.delivered), String(deliveries.dead)],
  ]);
  print(terminal, table(header, rows, { width: terminal.stdout.columns, below: ['since', 'until', 'only'] }));
  for (const { id, waitsFor } of lines) if (waitsFor !== null) note(terminal, `${id} waits: ${waitsFor}`);
}
