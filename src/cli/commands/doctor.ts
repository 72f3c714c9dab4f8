import { resolve } from 'node:path';
import type { Command } from 'commander';
import { type DestinationStatus, destinationStatuses, isGone } from '../../admin/destinations.ts';
import { endpointStatuses } from '../../admin/endpoints.ts';
import { RULES } from '../../concern.ts';
import type { Config } from '../../config/config.ts';
import { redactUrl } from '../../destination.ts';
import { insistOnFiles } from '../../events/missing.ts';
import { RollcallError } from '../../kernel/errors.ts';
import { withoutName } from '../../kernel/without-name.ts';
import { filesOf } from '../../store/events/open-files.ts';
import { type CliContext, EXIT } from '../context.ts';
import { describeDefaultGuard } from '../default-guard.ts';
import { examineDescriptors } from '../doctor/descriptors.ts';
import { examineEndpoints } from '../doctor/endpoints.ts';
import { examineEngines } from '../doctor/engines.ts';
import { type Finding, failed, ok, warning } from '../doctor/finding.ts';
import { examineFolders } from '../doctor/folders.ts';
import { describeFilter, filtersOf } from '../filters.ts';
import { refuseFormer } from '../former-store.ts';
import { hint } from '../options.ts';
import { answerText } from '../output/answer-text.ts';
import { duration } from '../output/duration.ts';
import { stateColours } from '../output/state-colours.ts';
import { count, print, printJson, type Terminal } from '../output/terminal.ts';
import { testable, testDestination } from '../test-event.ts';
import { isUnmade, withoutMakingStore } from '../unmade-store.ts';
import { type AppCommandOptions, addAppOptions, type OpenedApp, withApp } from '../with-app.ts';

const HELP = `
Example:
  $ rollcall doctor -c rollcall.yaml
  $ rollcall doctor -c rollcall.yaml --send      and a signed test event to each enabled destination

It checks:
  the configuration
  the folders, with their rights and disk space
  the store: its version, rights and connections, and this machine's clock compared with the database's
  the engines likewise, with a dry run of each definition, paused ones included
  each endpoint: DNS, the address rules of network, TLS and the end of its certificate; with network.proxy,
  whether the proxy takes connections
  what needs a person: closed endpoints, dead letters, backlogs, held, failed or overdue runs, unusual sizes, rejected
  messages

It changes nothing without --install, which loads extensions of DuckDB engines from extensions.duckdb.org into the
home folder. It sends nothing without --send.

With --json a finding is {"check","state","message"}; state is one of ok, warning, failed. The exit code is 1 if
something failed, 2 if the configuration did.`;

const MARKS = { ok: 'ok      ', warning: 'warning ', failed: 'FAILED  ' };
/** Milliseconds by which the clocks of machines may differ. */
const SKEW = 5_000;

interface DoctorOptions extends AppCommandOptions {
  readonly send?: boolean;
  readonly install?: boolean;
}

export function addDoctor(program: Command, context: CliContext): void {
  addAppOptions(
    program.command('doctor').description('find problems: configuration, folders, store, queries, endpoints'),
  )
    .option('--install', 'install missing extensions of DuckDB first')
    .option('--send', 'send a signed test event to each enabled destination')
    .addHelpText('after', HELP)
    .action((options: DoctorOptions) => doctor(options, context));
}

async function doctor(options: DoctorOptions, { terminal, setExitCode }: CliContext): Promise<void> {
  const colour = stateColours(terminal);
  const show = (finding: Finding) => {
    const { check, state, message } = finding;
    if (options.json) printJson(terminal, finding);
    else print(terminal, `${colour(state, MARKS[state])}${check}: ${message}`);
    if (state === 'failed') setExitCode(EXIT.failed);
  };
  const { ConfigurationError, loadConfig } = await import('../../config/load.ts');
  const { showMistake } = await import('../../config/mistakes.ts');
  let config: Config;
  try {
    config = loadConfig(options.config);
  } catch (error) {
    if (!(error instanceof ConfigurationError)) {
      if (!(error instanceof RollcallError)) throw error;
      show(failed('configuration', error.message));
      setExitCode(EXIT.usage);
      return;
    }
    for (const mistake of error.mistakes) show(failed('configuration', showMistake(mistake)));
    setExitCode(EXIT.usage);
    return;
  }
  if (options.install) for await (const finding of install(config)) show(finding);
  for await (const finding of examine(config, options, terminal)) show(finding);
}

async function* examine(config: Config, options: DoctorOptions, terminal: Terminal): AsyncGenerator<Finding> {
  const sizes = [count(config.destinations.length, 'destination'), count(config.sources.length, 'source')];
  const files = config.sourceFiles.length - 1;
  const others = files > 0 ? ` with ${count(files, 'file')} that it names` : '';
  yield ok('configuration', `${resolve(options.config)}${others} is valid: ${sizes.join(', ')}`);
  const { showMistake } = await import('../../config/mistakes.ts');
  for (const each of config.warnings) yield warning('configuration', showMistake(each));
  for (const filter of filtersOf(config)) yield ok(filter.destination, describeFilter(filter));
  const guard = describeDefaultGuard(config);
  if (guard) yield ok('guard', guard);
  yield* connections(config);
  // Before opening the store, which needs the folders.
  yield* examineFolders(config);
  const found: Finding[] = [];
  try {
    const isNew = isUnmade(config);
    if (isNew) {
      await refuseFormer(config, 'rollcall start');
      found.push(ok('store', 'is not there yet: the first start makes it'));
    }
    await withApp(options, { terminal, adapt: withoutMakingStore }, async (opened) => {
      for await (const finding of examineStore(opened, options)) {
        if (!isNew || finding.check !== 'store') found.push(finding);
      }
    });
  } catch (error) {
    if (terminal.signal.aborted || !(error instanceof RollcallError)) throw error;
    found.push(failed('store', `${redactUrl(config.store.url)}: ${error.code}: ${error.message}`));
  }
  yield* found;
  const endpoints = config.destinations.flatMap((each) => (each.enabled ? each.endpoints : []));
  yield* examineDescriptors(endpoints.length);
  yield* examineEndpoints(testable(config), config.network);
  if (options.send) yield* sendAll(config);
}

async function* install({ engines }: Config): AsyncGenerator<Finding> {
  const { installExtensions } = await import('../../../jobs/index.ts');
  for (const [name, engine] of Object.entries(engines)) {
    if (engine.type !== 'duckdb') continue;
    for (const remark of await installExtensions(engine)) yield { check: `engine ${name}`, ...remark };
  }
}

async function* sendAll(config: Config): AsyncGenerator<Finding> {
  for (const destination of testable(config).filter(({ enabled }) => enabled)) {
    for (const result of await testDestination(destination, config)) {
      const { url, status, error, ms, advice } = result;
      const check = `${destination.name} ${url}`;
      const answer =
        status === null
          ? `the test event got no answer: ${error} after ${ms} ms`
          : `answered the test event with ${answerText({ status, error })} in ${ms} ms`;
      yield advice === null ? ok(check, answer) : failed(check, `${answer}. ${advice}`);
    }
  }
}

async function* examineStore(opened: OpenedApp, options: DoctorOptions): AsyncGenerator<Finding> {
  const { app, config } = opened;
  const damage = await app.store.check(true);
  if (damage !== null) {
    yield failed('store', `is damaged: ${damage}. Restore a backup: docs/deployment.md`);
    return;
  }
  await app.store.ping();
  for (const remark of await app.store.examine()) yield { check: 'store', ...remark };
  yield ok('store', 'what it holds is sound');
  const { events } = app.store;
  if (config.eventLog) {
    const files = filesOf(config.eventLog);
    try {
      for (const remark of await files.examine()) yield { check: 'event log', ...remark };
    } catch (error) {
      if (!(error instanceof RollcallError)) throw error;
      yield failed('event log', `${error.code}: ${error.message}`);
    }
    if (events.kind === 'files' && !config.eventLog.bucket) await insistOnFiles(files, events);
  }
  yield* clock(opened);
  yield* examineEngines(opened);
  for (const { key } of await app.sync.orphans()) {
    yield warning(
      key,
      `is no longer in the configuration, but destinations still have its members. ${hint(options, `retire ${key}`)}`,
    );
  }
  for (const { id, key } of await app.store.runs({ states: ['held'], limit: 100 })) {
    yield warning(key, `the run ${id} is held. ${hint(options, `approve ${id}`)}, or ${hint(options, `reject ${id}`)}`);
  }
  yield* backlogs(opened, options);
  yield* concerns(opened, options);
}

/** Concerns that are not checked above. */
async function* concerns({ app }: OpenedApp, options: DoctorOptions): AsyncGenerator<Finding> {
  for (const { kind, subject, message } of (await app.standing()).concerns) {
    const command = RULES[kind].command?.(subject);
    if (command === undefined) continue;
    const [said = ''] = message.split('\n', 1);
    yield warning(subject, `${withoutName(subject, said).replace(/[.!]$/, '')}. ${hint(options, command)}`);
  }
}

async function* clock({ app }: OpenedApp): AsyncGenerator<Finding> {
  const ahead = await app.store.clockAhead();
  if (ahead === null) return;
  const by = duration(Math.abs(ahead));
  if (Math.abs(ahead) < SKEW) yield ok('clock', `agrees with the database's (${by} apart)`);
  else {
    const where = ahead > 0 ? 'ahead of' : 'behind';
    yield warning('clock', `this machine's is ${by} ${where} the database's: times that are shown are off. Set up NTP`);
  }
}

/** Valid settings that are probably mistakes. */
function* connections({ destinations, sources, audiences, traits, alerts }: Config): Generator<Finding> {
  const connected = new Set(destinations.flatMap((each) => (each.enabled ? each.sources : [])));
  for (const { id } of sources) if (!connected.has(id)) yield warning(id, 'no enabled destination gets its messages');
  for (const { key, source } of [...audiences, ...traits]) {
    if (!connected.has(source))
      yield warning(key, `nobody hears of it: no enabled destination is connected to ${source}`);
  }
  if (alerts.isOn && alerts.hooks.length === 0)
    yield warning('alerts', 'go nowhere: alerts.notify names no webhook, so that they are shown on the pages only');
  for (const { name, secrets, endpoints } of destinations) {
    if (secrets.length === 0) yield warning(name, 'has no sharedSecret: its receiver cannot know who sends');
    const dropped = new Set(
      endpoints.flatMap(({ headers }) => Object.keys(headers).filter((key) => key.includes('_'))),
    );
    for (const header of dropped)
      yield warning(name, `sends ${header}: nginx drops headers with an underscore in silence, so write it with -`);
  }
}

async function* backlogs({ app, config }: OpenedApp, options: DoctorOptions): AsyncGenerator<Finding> {
  for (const { destination, url, state, since } of await endpointStatuses(app.store, app.destinations())) {
    const where = `${destination} ${url}`;
    if (state !== 'open')
      yield warning(where, `is ${state}${since === null ? '' : ` since ${since}`}. ${hint(options, 'endpoints list')}`);
  }
  for (const status of await destinationStatuses(app.store, config)) {
    const { destination, pending, dead, heldOut } = status;
    if (isGone(status) && pending > 0) yield warning(destination, waitsForNobody(status));
    if (heldOut > 0) yield warning(destination, queueIsFull(heldOut));
    if (dead > heldOut)
      yield warning(destination, `${count(dead - heldOut, 'dead letter')}. ${hint(options, 'dead-letters list')}`);
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
