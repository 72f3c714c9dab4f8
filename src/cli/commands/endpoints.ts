import { type Command, Option } from 'commander';
import { endpointStatuses } from '../../admin/api.ts';
import { RollcallError } from '../../errors.ts';
import { type AttemptRecord, OUTCOMES, type Outcome } from '../../store/port.ts';
import type { Context } from '../context.ts';
import { instantOption, wholeNumber } from '../options.ts';
import { note, print, printJson, table } from '../terminal.ts';
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

export function addEndpoints(program: Command, context: Context): void {
  const command = program.command('endpoints').description('state of the endpoints');
  addAppOptions(
    command.command('list', { isDefault: true }).description('show each URL, its state and its backlog'),
  ).action((options: AppCommandOptions) => list(options, context));
  addAppOptions(command.command('resume').description('post again to an endpoint that is paused (410) or dead'))
    .argument('<endpoint...>', 'ids as the list shows them, or names of destinations')
    .addHelpText('after', '\nExample:\n  $ rollcall endpoints resume crm')
    .action((names: string[], options: AppCommandOptions) => resume(names, options, context));
  addAppOptions(program.command('attempts').description('search the attempt log, newest first'))
    .option('--destination <name>', 'only to this destination')
    .option('--endpoint <id>', 'only to this endpoint')
    .option('--delivery <id>', 'only of this delivery (the Idempotency-Key)')
    .option('--message <id>', 'only of this messageId')
    .option('--user <id>', 'only about this user')
    .addOption(new Option('--outcome <outcome>', 'only with this outcome').choices(OUTCOMES))
    .option('--since <iso>', 'only since then', instantOption)
    .option('-n, --limit <n>', 'at most so many', wholeNumber(1), 50)
    .addHelpText('after', '\nExample:\n  $ rollcall attempts --user u1 --since 2026-01-31')
    .action((options: AttemptOptions) => attempts(options, context));
}

async function list(options: AppCommandOptions, { terminal }: Context): Promise<void> {
  await withApp(options, { terminal }, async ({ app, config }) => {
    const statuses = await endpointStatuses(app.store, config.destinations);
    if (options.json) for (const status of statuses) printJson(terminal, status);
    else {
      const header = ['endpoint', 'destination', 'url', 'state', 'since', 'pending', 'dead'];
      const rows = statuses.map(({ endpoint, destination, url, state, since, pending, dead }) => [
        endpoint,
        destination,
        url,
        state,
        since ?? '-',
        String(pending),
        String(dead),
      ]);
      print(terminal, table(header, rows));
    }
  });
}

async function resume(names: readonly string[], options: AppCommandOptions, { terminal }: Context): Promise<void> {
  await withApp(options, { terminal }, async ({ app, config }) => {
    const statuses = await endpointStatuses(app.store, config.destinations);
    for (const name of names) {
      const named = statuses.filter(({ endpoint, destination }) => endpoint === name || destination === name);
      if (named.length === 0) throw new RollcallError('bad_usage', `There is no endpoint or destination ${name}.`);
      for (const { endpoint, destination } of named) {
        await app.store.markEndpoint({ endpoint, destination, pausedAt: null, deadSince: null });
        if (options.json) printJson(terminal, { resumed: endpoint, destination });
        else print(terminal, `${destination}: ${endpoint} is resumed.`);
      }
    }
  });
}

async function attempts(options: AttemptOptions, { terminal }: Context): Promise<void> {
  const { destination, endpoint, delivery, message, user, outcome, since, limit } = options;
  const filter = {
    limit,
    ...(destination === undefined ? {} : { destination }),
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(delivery === undefined ? {} : { delivery }),
    ...(message === undefined ? {} : { messageId: message }),
    ...(user === undefined ? {} : { userId: user }),
    ...(outcome === undefined ? {} : { outcome }),
    ...(since === undefined ? {} : { since }),
  };
  await withApp(options, { terminal }, async ({ app }) => {
    const records = await app.store.attempts(filter);
    if (options.json) for (const record of records) printJson(terminal, attemptLine(record));
    else if (records.length > 0) print(terminal, attemptTable(records));
    else note(terminal, 'There are no such attempts.');
  });
}

/** An attempt with its time as people and scripts read it. */
export function attemptLine(record: AttemptRecord) {
  return { ...record, at: new Date(record.at).toISOString() };
}

export function attemptTable(records: readonly AttemptRecord[]): string {
  const header = ['at', 'destination', 'endpoint', 'type', 'user', 'outcome', 'status', 'ms', 'delivery', 'error'];
  const rows = records.map((record) => [
    new Date(record.at).toISOString(),
    record.destination,
    record.endpoint,
    record.type,
    record.userId ?? '-',
    record.outcome,
    String(record.status ?? '-'),
    String(Math.round(record.ms)),
    record.delivery,
    record.error ?? '',
  ]);
  return table(header, rows);
}
