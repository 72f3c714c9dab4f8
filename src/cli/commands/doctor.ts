import type { Command } from 'commander';
import { endpointStatuses } from '../../admin/api.ts';
import { type DestinationStatus, destinationStatuses, isGone } from '../../admin/destinations.ts';
import type { Config } from '../../config/config.ts';
import { RollcallError } from '../../errors.ts';
import { type Context, EXIT } from '../context.ts';
import { duration } from '../duration.ts';
import { count, print, printJson } from '../terminal.ts';
import { type AppCommandOptions, addAppOptions, type Opened, withApp } from '../with-app.ts';

/** One thing that was looked at. */
interface Finding {
  readonly check: string;
  readonly state: 'ok' | 'warning' | 'failed';
  readonly message: string;
}

const HELP = `
Example:
  $ rollcall doctor -c rollcall.yaml

It changes nothing and sends nothing. With --json a finding is {"check","state","message"}; state is one of ok,
warning, failed. Exit code 1 when something failed.`;

const MARKS = { ok: 'ok      ', warning: 'warning ', failed: 'FAILED  ' };

export function addDoctor(program: Command, context: Context): void {
  addAppOptions(
    program.command('doctor').description('look for what is wrong: configuration, store, queries, endpoints'),
  )
    .addHelpText('after', HELP)
    .action((options: AppCommandOptions) => doctor(options, context));
}

async function doctor(options: AppCommandOptions, { terminal, setExitCode }: Context): Promise<void> {
  await withApp(options, { terminal }, async (opened) => {
    for await (const finding of examine(opened)) {
      if (options.json) printJson(terminal, finding);
      else print(terminal, `${MARKS[finding.state]}${finding.check}: ${finding.message}`);
      if (finding.state === 'failed') setExitCode(EXIT.failed);
    }
  });
}

async function* examine(opened: Opened): AsyncGenerator<Finding> {
  const { app, config } = opened;
  yield ok(
    'configuration',
    `${count(config.destinations.length, 'destination')}, ${count(config.sources.length, 'source')}`,
  );
  yield* connections(config);
  const damage = await app.store.check(true);
  if (damage !== null) {
    yield { check: 'store', state: 'failed', message: `is damaged: ${damage}. Restore a backup: docs/deployment.md` };
    return;
  }
  await app.store.ping();
  yield ok('store', 'it answers');
  yield ok('store', 'what it holds is sound');
  yield* queries(opened);
  for (const { key } of await app.sync.orphans()) {
    yield warning(key, `is no longer in the configuration, but its members were told. rollcall retire ${key}`);
  }
  for (const { id, key } of await app.store.runs({ states: ['held'], limit: 100 })) {
    yield warning(key, `the run ${id} is held. rollcall approve ${id}, or reject`);
  }
  yield* endpoints(opened);
}

/** What the configuration allows but hardly anybody wants. */
function* connections({ destinations, sources, audiences, traits }: Config): Generator<Finding> {
  const connected = new Set(destinations.flatMap((each) => (each.enabled ? each.sources : [])));
  for (const { id } of sources) if (!connected.has(id)) yield warning(id, 'no enabled destination gets its messages');
  for (const { key, source } of [...audiences, ...traits]) {
    if (!connected.has(source)) yield warning(key, `nobody is told: no destination is connected to ${source}`);
  }
  for (const { name, secrets } of destinations) {
    if (secrets.length === 0) yield warning(name, 'has no sharedSecret: its receiver cannot know who sends');
  }
}

/** Runs each definition as `rollcall plan` does, which leaves no trace. */
async function* queries({ app, config }: Opened): AsyncGenerator<Finding> {
  for (const { key, paused } of [...config.audiences, ...config.traits]) {
    if (paused) continue;
    try {
      const [plan] = await app.sync.plan([key]);
      yield plan?.held
        ? warning(key, `a sync would be held: ${plan.held}`)
        : ok(key, count(plan?.members ?? 0, 'member'));
    } catch (error) {
      if (!(error instanceof RollcallError)) throw error;
      yield { check: key, state: 'failed', message: `${error.code}: ${error.message}` };
    }
  }
}

async function* endpoints({ app, config }: Opened): AsyncGenerator<Finding> {
  for (const { destination, url, state, since } of await endpointStatuses(app.store, config.destinations)) {
    const where = `${destination} ${url}`;
    if (state === 'open') yield ok(where, 'takes deliveries, as far as is known');
    else yield warning(where, `is ${state}${since === null ? '' : ` since ${since}`}. rollcall endpoints list`);
  }
  for (const status of await destinationStatuses(app.store, config)) {
    const { destination, pending, dead, heldOut } = status;
    if (isGone(status) && pending > 0) yield warning(destination, waitsForNobody(status));
    if (heldOut > 0) yield warning(destination, queueIsFull(heldOut));
    if (dead > heldOut)
      yield warning(destination, `${count(dead - heldOut, 'dead letter')}. rollcall dead-letters list`);
    if (pending > 0 && !isGone(status)) yield ok(destination, `${count(pending, 'delivery', 'deliveries')} pending`);
  }
}

function waitsForNobody({ destination, pending, unknownSince, unknownFor, removedAfter }: DestinationStatus): string {
  const since = unknownSince === null ? '' : ` since ${unknownSince}`;
  const waiting = `${count(pending, 'delivery', 'deliveries')} wait, and no process that runs knows it${since}`;
  return `${waiting} (${duration(unknownFor)} of ${duration(removedAfter)}). rollcall destinations drop ${destination}, or put it back`;
}

function queueIsFull(heldOut: number): string {
  const letters = count(heldOut, 'dead letter');
  return `its queue is full: ${letters} queue_full are queued again as it drains. rollcall endpoints list`;
}

function ok(check: string, message: string): Finding {
  return { check, state: 'ok', message };
}

function warning(check: string, message: string): Finding {
  return { check, state: 'warning', message };
}
