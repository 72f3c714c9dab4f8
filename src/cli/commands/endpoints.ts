import { type Command, Option } from 'commander';
import { destinationStatuses, isGone } from '../../admin/destinations.ts';
import {
  type EndpointStatus,
  endpointStatuses,
  failing,
  pauseEndpoints,
  resumeEndpoints,
} from '../../admin/endpoints.ts';
import { attemptLine } from '../../admin/lines.ts';
import { given } from '../../kernel/given.ts';
import { type AttemptRecord, OUTCOMES, type Outcome } from '../../store/port.ts';
import { asUser } from '../as-user.ts';
import type { CliContext } from '../context.ts';
import { eachPage } from '../each-page.ts';
import { noteUnsent } from '../note-unsent.ts';
import { hint, instantOption, wholeNumber } from '../options.ts';
import { stateColours } from '../output/state-colours.ts';
import { table } from '../output/table.ts';
import { count, inLine, note, print, printJson, type Terminal } from '../output/terminal.ts';
import { printLines } from '../output/write-lines.ts';
import { noteUnknown } from '../unknown-names.ts';
import { type AppCommandOptions, addAppOptions, withApp } from '../with-app.ts';

interface AttemptOptions extends AppCommandOptions {
  readonly destination?: string;
  readonly endpoint?: string;
  readonly delivery?: string;
  readonly message?: string;
  readonly user?: string;
  readonly outcome?: Outcome;
  readonly since?: number;
  readonly limit: number;
}

const LIST_HELP = `
States:
  open      it gets deliveries
  dead      it does not answer, or answers errors such as 500; Rollcall probes it, and opens it once it takes one
  refusing  it refused its last 20 attempts with 3xx, 401, 403, 404, 405 or 407, or its certificate
            or address is not allowed: correct its URL, secret or certificate; once it accepts one, Rollcall sends what
            it refused again
  paused    it answered 410, or a person paused it: rollcall endpoints resume
  disabled  its destination is disabled in the configuration

Waiting deliveries and dead letters are counted per destination. Held out are dead letters queue_full: the queue had
no room for them, and Rollcall queues them again as it drains.`;

const RESUME_HELP = `
Example:
  $ rollcall endpoints resume crm

A running service posts to it again within seconds.`;

const PAUSE_HELP = `
Example:
  $ rollcall endpoints pause crm

A running service stops posting to it within seconds. Its messages wait until \`rollcall endpoints resume\`, for up to
four hours from their first attempt. Without an attempt, the four hours begin with the pause or the message. Then they
are dead letters (expired).`;

const ATTEMPTS_HELP = `
Example:
  $ rollcall attempts --user u1 --since 2026-01-31
  $ rollcall attempts --destination crm --outcome refused --json

An attempt is logged once it has ended, so a slow one may come before quick ones that began after it.
The last column is the start of the answer, or why there was none; --json has up to 64 KiB of it.`;

const RESUMED: Readonly<Record<EndpointStatus['state'], string>> = {
  open: 'is open',
  dead: 'was dead and is resumed',
  refusing: 'was refusing everything and is tried again',
  paused: 'was paused and is resumed',
  disabled: 'is not paused, but its destination is disabled',
};

const ANSWER_WIDTH = 60;

export function addEndpoints(program: Command, context: CliContext): void {
  const command = program.command('endpoints').description('state of the endpoints');
  addAppOptions(command.command('list', { isDefault: true }).description('show each URL, its state and its backlog'))
    .addHelpText('after', LIST_HELP)
    .action((options: AppCommandOptions) => list(options, context));
  addAppOptions(
    command.command('resume').description('post again to an endpoint that is paused (410), refusing or dead'),
  )
    .argument('<endpoint...>', 'ids as the list shows them, or names of destinations')
    .addHelpText('after', RESUME_HELP)
    .action((names: string[], options: AppCommandOptions) => resume(names, options, context));
  addAppOptions(command.command('pause').description('hold back everything for an endpoint until it is resumed'))
    .argument('<endpoint...>', 'ids as the list shows them, or names of destinations')
    .addHelpText('after', PAUSE_HELP)
    .action((names: string[], options: AppCommandOptions) => pause(names, options, context));
  addAppOptions(program.command('attempts').description('search the attempt log, last logged first'))
    .option('--destination <name>', 'only to this destination')
    .option('--endpoint <id>', 'only to this endpoint')
    .option('--delivery <id>', 'only of this delivery (the Idempotency-Key)')
    .option('--message <id>', 'only of this messageId')
    .option('--user <id>', 'only about this user')
    .addOption(new Option('--outcome <outcome>', 'only with this outcome').choices(OUTCOMES))
    .option('--since <time>', 'only since then', instantOption)
    .option('-n, --limit <n>', 'at most this many', wholeNumber(1), 50)
    .addHelpText('after', ATTEMPTS_HELP)
    .action((options: AttemptOptions) => attempts(options, context));
}

async function list(options: AppCommandOptions, { terminal }: CliContext): Promise<void> {
  await withApp(options, { terminal }, async ({ app, config }) => {
    const statuses = await endpointStatuses(app.store, app.destinations());
    if (options.json) for (const status of statuses) printJson(terminal, status);
    else if (statuses.length === 0) note(terminal, 'The configuration has no destinations.');
    else print(terminal, endpointTable(statuses, terminal));
    if (options.json) return;
    const gone = (await destinationStatuses(app.store, config)).filter((each) => isGone(each) && each.pending > 0);
    for (const { destination, pending, unknownSince } of gone) {
      const since = unknownSince === null ? '' : ` since ${unknownSince}`;
      const waiting = count(pending, 'delivery', 'deliveries');
      note(
        terminal,
        `${destination}: ${waiting} wait, and nobody serves it${since}. See ${hint(options, 'destinations')}`,
      );
    }
    const [dead, refusing, paused] = (['dead', 'refusing', 'paused'] as const).map((wanted) =>
      statuses.find(({ state }) => state === wanted),
    );
    if (dead)
      note(
        terminal,
        `${dead.destination} ${inLine(failing(dead))}. Its requests: ${hint(options, `attempts --endpoint ${dead.endpoint}`)}`,
      );
    if (refusing)
      note(
        terminal,
        `Answers of one that refuses everything: ${hint(options, `attempts --endpoint ${refusing.endpoint} -n 1`)}`,
      );
    if (paused) note(terminal, `After repairing a paused one: ${hint(options, `endpoints resume ${paused.endpoint}`)}`);
  });
}

function endpointTable(statuses: readonly EndpointStatus[], terminal: Terminal): string {
  const colour = stateColours(terminal);
  const hasHeld = statuses.some(({ heldOut }) => heldOut > 0);
  const header = [
    'endpoint',
    'destination',
    'url',
    'state',
    'since',
    'pending',
    'dead',
    ...(hasHeld ? ['held out'] : []),
  ];
  const rows = statuses.map(({ endpoint, destination, url, state, since, pending, dead, heldOut }) => [
    endpoint,
    destination,
    url,
    colour(state),
    since ?? '-',
    String(pending),
    String(dead),
    ...(hasHeld ? [String(heldOut)] : []),
  ]);
  return table(header, rows, { width: terminal.stdout.columns, flexible: ['destination', 'url'] });
}

async function resume(names: readonly string[], options: AppCommandOptions, { terminal }: CliContext): Promise<void> {
  await withApp(options, { terminal }, async ({ app }) => {
    const deed = { action: 'endpoint.resume', target: names.join(' ') };
    const work = () => resumeEndpoints(app.store, app.destinations(), names);
    for (const line of await asUser(app, deed, work)) {
      if (options.json) printJson(terminal, line);
      else print(terminal, `${line.destination}: ${line.endpoint} ${RESUMED[line.was]}.`);
    }
  });
}

async function pause(names: readonly string[], options: AppCommandOptions, { terminal }: CliContext): Promise<void> {
  await withApp(options, { terminal, makesStore: true }, async ({ app }) => {
    const deed = { action: 'endpoint.pause', target: names.join(' ') };
    const paused = await asUser(app, deed, () => pauseEndpoints(app.store, app.destinations(), names));
    for (const { destination, endpoint, state } of paused) {
      const said = state === 'paused' ? 'was paused already' : 'is paused';
      if (options.json) printJson(terminal, { endpoint, destination, was: state, paused: state !== 'paused' });
      else print(terminal, `${destination}: ${endpoint} ${said}.`);
    }
  });
}

async function attempts(options: AttemptOptions, { terminal }: CliContext): Promise<void> {
  const { destination, endpoint, delivery, message: messageId, user: userId, outcome, since, limit } = options;
  const filter = given({ destination, endpoint, delivery, messageId, userId, outcome, since });
  await withApp(options, { terminal }, async ({ app, config }) => {
    const records: AttemptRecord[] = [];
    const ask = async (limit: number, from: number | null) => {
      const { attempts: rows, next } = await app.store.attemptPage({ ...filter, limit }, from);
      return { rows, next };
    };
    const show = (rows: readonly AttemptRecord[]) => {
      if (options.json) return printLines(terminal, rows.map(attemptLine));
      records.push(...rows);
    };
    const { shown, isMore } = await eachPage(limit, ask, show, terminal.signal);
    if (records.length > 0) print(terminal, attemptTable(records, terminal));
    if (shown === 0 && !options.json)
      note(terminal, `There are no such attempts. What waits for each endpoint: ${hint(options, 'endpoints')}`);
    if (isMore) note(terminal, 'There are more, older ones: a higher --limit shows them.');
    if (shown === 0) noteUnknown(terminal, config, options);
    const failed = records.map(({ destination, endpoint, outcome }) => ({ destination, endpoint, why: outcome }));
    noteUnsent(terminal, options, app.destinations(), failed);
  });
}

function attemptTable(records: readonly AttemptRecord[], terminal: Terminal): string {
  const colour = stateColours(terminal);
  const header = ['at', 'destination', 'endpoint', 'type', 'user', 'outcome', 'status', 'ms', 'delivery', 'answer'];
  const rows = records.map((record) => [
    new Date(record.at).toISOString(),
    record.destination,
    record.endpoint,
    record.type,
    record.userId ?? '-',
    colour(record.outcome),
    String(record.status ?? '-'),
    String(Math.round(record.ms)),
    record.delivery,
    answer(record),
  ]);
  const flexible = ['destination', 'user', 'answer'];
  return table(header, rows, { width: terminal.stdout.columns, flexible });
}

/** The start of the answer in one line, without control characters, or the reason for having none. */
function answer({ response, error, status }: AttemptRecord): string {
  const text = response ?? (error === `status_${status}` ? '' : (error ?? ''));
  const line = text
    .slice(0, ANSWER_WIDTH * 4)
    .replaceAll(/[\p{C}\s]+/gu, ' ')
    .trim();
  return line.length > ANSWER_WIDTH ? `${line.slice(0, ANSWER_WIDTH - 1)}…` : line;
}
