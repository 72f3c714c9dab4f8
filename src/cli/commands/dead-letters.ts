import { type Command, Option } from 'commander';
import { letterLine, letterScope } from '../../admin/lines.ts';
import { type ReplayResult, replayLetters } from '../../admin/replay-letters.ts';
import type { Config } from '../../config/config.ts';
import { systemClock } from '../../kernel/clock.ts';
import { DEAD_REASONS, type DeadReason } from '../../kernel/dead-reasons.ts';
import { RollcallError } from '../../kernel/errors.ts';
import { given } from '../../kernel/given.ts';
import { MESSAGE_TYPES, type MessageType } from '../../message-types.ts';
import type { DeadLetter, Records } from '../../store/port.ts';
import { asUser } from '../as-user.ts';
import { type CliContext, EXIT } from '../context.ts';
import { eachPage } from '../each-page.ts';
import { instantOption, placeOption, wholeNumber } from '../options.ts';
import { letterTable } from '../output/letter-table.ts';
import { createProgress } from '../output/progress.ts';
import { count, note, print, printJson, type Terminal } from '../output/terminal.ts';
import { printLines } from '../output/write-lines.ts';
import { noteUnknown } from '../unknown-names.ts';
import { type AppCommandOptions, addAppOptions, withApp } from '../with-app.ts';

const PAGE = 500;
/** Milliseconds between progress lines, without a terminal. */
const REPORT_EVERY = 5_000;

interface LetterOptions extends AppCommandOptions {
  readonly destination?: string;
  readonly source?: string;
  readonly reason?: DeadReason;
  readonly type?: MessageType;
  readonly user?: string;
  readonly since?: number;
  readonly until?: number;
}

interface ListOptions extends LetterOptions {
  readonly body?: boolean;
  readonly after?: string;
  readonly limit: number;
}

interface ChosenOptions extends LetterOptions {
  readonly all?: boolean;
  readonly rate?: number;
}

const LIST_HELP = `
Oldest ids first; --after shows the next page.

With --json a dead letter is {"id","destination","source","type","userId","messageId","reason","status","attempts",
"firstAt","lastAt"}, and "body" with --body.`;

const REPLAY_HELP = `
Examples:
  $ rollcall dead-letters replay --destination crm --reason refused
  $ rollcall dead-letters replay --all --rate 200
  $ rollcall dead-letters replay 7f3a-12 7f3a-13

A membership change is sent with its current value. A running service posts them; otherwise the next start does.
Without --rate they are queued as fast as the service delivers: no queue is filled beyond half of store.maxQueued.
Run an interrupted replay again, and it continues: what was replayed is no longer a dead letter.

With --json the result is {"replayed","superseded","left"}: queued again, outdated by a newer change, and left as dead
letters because their audience could not be read. Exit codes: 0 all were replayed, 1 some are left or it was
interrupted, 2 bad usage or configuration.`;

const DROP_HELP = `
Example:
  $ rollcall dead-letters drop --reason destination_removed --until 2026-01-31

Dropped letters cannot be brought back: \`dead-letters list --json --body\` with the same options keeps a copy.`;

export function addDeadLetters(program: Command, context: CliContext): void {
  const command = program
    .command('dead-letters')
    .description('show what could not be delivered, send it again, or delete it');
  filtered(command.command('list', { isDefault: true }).description('show dead letters'))
    .option('-n, --limit <n>', 'at most this many', wholeNumber(1), 50)
    .option('--after <id>', 'only those after this one', placeOption)
    .option('--body', 'with their bodies')
    .addHelpText('after', LIST_HELP)
    .action((options: ListOptions) => list(options, context));
  chosen(command.command('replay').description('send dead letters again'))
    .option('--rate <n>', 'at most this many a second', wholeNumber(1))
    .addHelpText('after', REPLAY_HELP)
    .action((ids: string[], options: ChosenOptions) => replay(ids, options, context));
  chosen(command.command('drop').description('delete dead letters permanently'))
    .addHelpText('after', DROP_HELP)
    .action((ids: string[], options: ChosenOptions) => drop(ids, options, context));
}

function filtered(command: Command): Command {
  return addAppOptions(command)
    .option('--destination <name>', 'only of this destination')
    .option('--source <id>', 'only of this source')
    .addOption(new Option('--reason <reason>', 'only letters with this reason').choices(DEAD_REASONS))
    .addOption(new Option('--type <type>', 'only of this kind').choices(MESSAGE_TYPES))
    .option('--user <id>', 'only of this user')
    .option('--since <time>', 'only dead since then', instantOption)
    .option('--until <time>', 'only dead before then', instantOption);
}

function chosen(command: Command): Command {
  return filtered(command.argument('[id...]', 'ids, as the list shows them')).option('--all', 'all of them');
}

async function list(options: ListOptions, { terminal }: CliContext): Promise<void> {
  const { limit, after, body, json } = options;
  await withApp(options, { terminal }, async ({ app, config }) => {
    const filter = { ...filterOf(options), ...given({ after }) };
    let last = '';
    const ask = async (limit: number, cursor: string | null) => {
      const from = given({ after: cursor ?? after });
      const { letters: rows, next } = await app.store.deadLetterPage({ ...filter, ...from, limit }, false);
      return { rows, next };
    };
    const show = (rows: readonly DeadLetter[]) => {
      last = rows.at(-1)?.id ?? last;
      if (json) {
        return printLines(
          terminal,
          rows.map((letter) => letterLine(letter, body)),
        );
      }
      print(terminal, letterTable(rows, body, terminal));
    };
    const { shown, isMore } = await eachPage(limit, ask, show, terminal.signal);
    if (shown === 0 && !json)
      note(terminal, Object.keys(filter).length > 0 ? 'No dead letters match.' : 'There are no dead letters.');
    if (isMore) note(terminal, `There are more: --after ${last}, or a higher --limit.`);
    if (shown === 0) noteUnknown(terminal, config, options);
  });
}

async function replay(ids: readonly string[], options: ChosenOptions, context: CliContext): Promise<void> {
  const { terminal, setExitCode } = context;
  const watch = watchProgress(terminal, 'replayed');
  await withApp(options, { terminal }, async ({ app, config }) => {
    const chosen = choose(app.store, ids, options);
    const unreachable = new Map<string, RollcallError>();
    const replaying = () =>
      replayLetters(chosen.pages(), {
        store: app.store,
        currentBodies: (letters) => app.sync.currentBodies(letters, unreachable),
        clock: systemClock,
        rate: options.rate ?? null,
        maxPending: Math.max(1, Math.floor(config.store.maxQueued / 2)),
        signal: terminal.signal,
        onProgress: ({ replayed }) => watch.show(replayed),
        onFull: (destination) => note(terminal, `${destination} has too much to deliver; the replay waits for it.`),
      });
    const deed = { action: 'dead-letters.replay', target: scopeOf(ids, options) };
    const result = await asUser(app, deed, replaying).finally(watch.stop);
    reportReplay(result, options, context);
    if (result.left.size > 0) setExitCode(EXIT.failed);
    chosen.conclude(config, context);
  });
}

function reportReplay({ replayed, superseded, left }: ReplayResult, { json }: ChosenOptions, { terminal }: CliContext) {
  const stayed = [...left.values()].reduce((sum, number) => sum + number, 0);
  if (json) printJson(terminal, { replayed, superseded, left: stayed });
  else {
    const rest = superseded > 0 ? ` ${superseded} more had been superseded by a newer change.` : '';
    print(terminal, `${count(replayed, 'dead letter')} replayed.${rest}`);
  }
  for (const [cause, number] of left) note(terminal, `${count(number, 'dead letter')} left: ${cause}`);
}

async function drop(ids: readonly string[], options: ChosenOptions, context: CliContext): Promise<void> {
  const { terminal } = context;
  const watch = watchProgress(terminal, 'dropped');
  await withApp(options, { terminal }, async ({ app, config }) => {
    const chosen = choose(app.store, ids, options);
    let dropped = 0;
    const dropping = async () => {
      for await (const page of chosen.pages()) {
        dropped += await app.store.drop(page.map(({ id }) => id));
        watch.show(dropped);
      }
    };
    try {
      await asUser(app, { action: 'dead-letters.drop', target: scopeOf(ids, options) }, dropping);
    } catch (error) {
      // An interruption closes the store.
      if (!terminal.signal.aborted) throw error;
    } finally {
      watch.stop();
    }
    if (options.json) printJson(terminal, { dropped });
    else print(terminal, `${count(dropped, 'dead letter')} dropped.`);
    chosen.conclude(config, context);
  });
}

function watchProgress(terminal: Terminal, what: string) {
  const bars = createProgress(terminal);
  let saidAt = systemClock.monotonic();
  return {
    show(done: number): void {
      if (terminal.stderr.isTTY) bars.show(what, done, done);
      const now = systemClock.monotonic();
      if (terminal.stderr.isTTY || now - saidAt < REPORT_EVERY) return;
      note(terminal, `${count(done, 'dead letter')} ${what} so far`);
      saidAt = now;
    },
    stop: () => bars.stop(),
  };
}

/** The chosen letters, page by page. Letters that die again in the meantime are left out. */
function choose(store: Pick<Records, 'deadLetters'>, ids: readonly string[], options: ChosenOptions) {
  const filter = filterOf(options);
  if (ids.length === 0 && Object.keys(filter).length === 0 && !options.all) {
    throw new RollcallError('bad_usage', 'Name dead letters by id or by an option. For all of them, add --all.');
  }
  if (ids.length > 0 && options.all) throw new RollcallError('bad_usage', '--all does not go with ids.');
  const until = options.until ?? systemClock.now();
  const scope = { ...filter, until, ...(ids.length > 0 ? { ids } : {}) };
  const missing = new Set(ids);
  let found = 0;
  return {
    async *pages(): AsyncGenerator<readonly DeadLetter[]> {
      for (let after: string | undefined; ; ) {
        const page = await store.deadLetters({ ...scope, ...given({ after }), limit: PAGE });
        for (const { id } of page) missing.delete(id);
        found += page.length;
        if (page.length > 0) yield page;
        if (page.length < PAGE) return;
        after = page.at(-1)?.id;
      }
    },
    /** Report ids that were not found, or how to continue after an interruption. */
    conclude(config: Config, { terminal, setExitCode }: CliContext): void {
      if (terminal.signal.aborted) {
        const again = `--until ${new Date(until).toISOString()}`;
        note(terminal, `Interrupted. Run the same command to continue, with ${again} to skip letters that died again.`);
        setExitCode(EXIT.failed);
        return;
      }
      if (missing.size > 0) note(terminal, `No such dead letter: ${[...missing].join(', ')}`);
      if (missing.size > 0 && found === 0) setExitCode(EXIT.failed);
      if (found === 0) noteUnknown(terminal, config, options);
    },
  };
}

const scopeOf = (ids: readonly string[], options: LetterOptions) =>
  letterScope({ ...filterOf(options), ...(ids.length > 0 ? { ids } : {}) });

const filterOf = ({ destination, source, reason, type, user, since, until }: LetterOptions) =>
  given({ destination, source, reason, type, userId: user, since, until });
