import { type Command, Option } from 'commander';
import { systemClock } from '../../kernel/clock.ts';
import { RollcallError } from '../../kernel/errors.ts';
import { nothingNamed } from '../../kernel/spelling.ts';
import { deletes, REGULATION_TYPES, type Regulation, type RegulationType } from '../../store/port.ts';
import { asUser, cliUser } from '../as-user.ts';
import { type CliContext, EXIT } from '../context.ts';
import { collect } from '../options.ts';
import { count, note, print, printJson } from '../output/terminal.ts';
import { type AppCommandOptions, addAppOptions, type OpenedApp, withApp } from '../with-app.ts';

const POLL_INTERVAL = 100;
/** Polls without a change before the rest is left to the next start. */
const PATIENCE = 50;
/** Attempts read per user: more than there are destinations and endpoints. */
const ATTEMPTS = 1000;
const RE_ENTRY =
  'Audiences take the user in again as long as their data has the user: take the user out of the data too, or add --type SUPPRESS_WITH_DELETE.';
const HELP = `
Examples:
  $ rollcall forget user-42 -c rollcall.yaml
  $ rollcall forget user-42 --type SUPPRESS_WITH_DELETE     and keep the user out

The users are erased here, and the destinations of each affected source get one delete notice per user. A destination
that is connected to three sources gets three. --source limits the request. With DELETE_ONLY, a user who is still in
the data of an audience enters again with its next sync. With --json the request is {"id","type","status","sources",
"users","createdAt","finishedAt"}.`;

interface ForgetOptions extends AppCommandOptions {
  readonly type: RegulationType;
  readonly source?: readonly string[];
}

export function addForget(program: Command, context: CliContext): void {
  addAppOptions(program.command('forget').description('file a deletion request'))
    .argument('<user-id...>', 'at most 5000')
    .addOption(new Option('-t, --type <type>', 'kind of request').choices(REGULATION_TYPES).default('DELETE_ONLY'))
    .option('--source <id>', 'only this source; may be given several times', collect)
    .addHelpText('after', HELP)
    .action((users: string[], options: ForgetOptions) => forget(users, options, context));
}

async function checkUsers(users: readonly string[]): Promise<void> {
  const { MAX_USERS, subjectIds } = await import('../../deletion/subjects.ts');
  const [issue] = subjectIds.safeParse(users).error?.issues ?? [];
  if (!issue) return;
  const [place] = issue.path;
  if (typeof place !== 'number') throw new RollcallError('bad_usage', `A request takes at most ${MAX_USERS} users.`);
  throw new RollcallError('bad_usage', `${JSON.stringify(users[place])} ${issue.message}.`);
}

async function forget(users: readonly string[], options: ForgetOptions, context: CliContext): Promise<void> {
  const { terminal, setExitCode } = context;
  await checkUsers(users);
  await withApp(options, { terminal, makesStore: true }, async (opened) => {
    const { app, config } = opened;
    const known = config.sources.map((source) => source.id);
    const unknown = options.source?.filter((id) => !known.includes(id)) ?? [];
    if (unknown.length > 0) throw new RollcallError('bad_usage', nothingNamed('source', unknown, known));
    await app.start({ collect: false, schedules: false });
    const userIds = [...new Set(users)];
    const request = { type: options.type, sources: options.source ?? null, userIds, by: cliUser() };
    const deed = { action: 'regulation.file', target: `${options.type} of ${userIds.length}` };
    const id = await asUser(app, deed, () => app.regulations.file(request));
    const regulation = await awaitRegulation(id, opened, terminal.signal);
    await awaitNotices(regulation, opened, terminal.signal);
    if (options.json) printJson(terminal, line(regulation));
    else print(terminal, `${regulation.id}: ${regulation.status}, ${count(userIds.length, 'user')}.`);
    const computed = [...config.audiences, ...config.traits].some(
      ({ source }) => options.source?.includes(source) ?? true,
    );
    if (options.type === 'DELETE_ONLY' && computed) note(terminal, RE_ENTRY);
    if (regulation.status === 'PARTIAL_SUCCESS') note(terminal, 'An engine could not be reached; see the log.');
    if (regulation.status !== 'FINISHED') setExitCode(EXIT.failed);
  });
}

async function awaitRegulation(id: string, { app }: OpenedApp, signal: AbortSignal): Promise<Regulation> {
  for (;;) {
    const regulation = await app.regulations.find(id);
    if (regulation === null) throw new RollcallError('store_failed', `The request ${id} is gone.`);
    const open = regulation.status === 'INITIALIZED' || regulation.status === 'RUNNING';
    if (!open || signal.aborted) return regulation;
    await systemClock.sleep(POLL_INTERVAL, signal).catch(() => {});
  }
}

/** Wait until each notice was posted once. After some seconds without a change, leave the rest to the next start. */
async function awaitNotices(
  { id, type, sources, hashes, createdAt }: Regulation,
  { app, config }: OpenedApp,
  signal: AbortSignal,
): Promise<void> {
  if (!deletes(type)) return;
  const scope = sources ?? config.sources.map(({ id }) => id);
  const affected = config.destinations.flatMap((each) => (each.enabled ? each.sources : []));
  const expected = affected.filter((id) => scope.includes(id)).length;
  // One notice for each user and former id.
  const open = new Set(hashes.keys());
  for (let unchanged = 0; open.size > 0 && unchanged < PATIENCE && !signal.aborted; unchanged += 1) {
    for (const place of open) {
      // Attempts of notices have no user id, so find them by message id.
      const attempts = await app.store.attempts({ messageId: `${id}-${place}`, since: createdAt, limit: ATTEMPTS });
      const posted = new Set(attempts.map(({ delivery }) => delivery));
      // Notices are sent in order: after the first missing one, no later one is complete.
      if (posted.size < expected) break;
      open.delete(place);
      unchanged = 0;
    }
    if (open.size > 0) await systemClock.sleep(POLL_INTERVAL, signal).catch(() => {});
  }
}

function line({ id, type, status, sources, subjects, createdAt, finishedAt }: Regulation) {
  return {
    id,
    type,
    status,
    sources,
    users: subjects,
    createdAt: new Date(createdAt).toISOString(),
    finishedAt: finishedAt === null ? null : new Date(finishedAt).toISOString(),
  };
}
