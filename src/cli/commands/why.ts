import type { Command } from 'commander';
import type { ConditionAnswer, StepTaken, Story, StoryChange, ToldDestination } from '../../../jobs/index.ts';
import { storyLine } from '../../admin/lines.ts';
import type { CliContext } from '../context.ts';
import { hint, instantOption } from '../options.ts';
import { answerText } from '../output/answer-text.ts';
import { stateColours } from '../output/state-colours.ts';
import { inLine, print, printJson, type Terminal, timeIn } from '../output/terminal.ts';
import { type AppCommandOptions, addAppOptions, withApp } from '../with-app.ts';

interface WhyOptions extends AppCommandOptions {
  readonly at?: number;
}

const HELP = `
Examples:
  $ rollcall why big_spenders customer-7
  $ rollcall why big_spenders customer-7 --at 2026-11-01T12:00:00Z

It shows each change of that user in that audience, and the run that made it with its version of the definition. For
each destination it shows the attempt that reached it, or else the last attempt or the dead letter. It works for
retired audiences too. Runs and changes are kept for runs.keep, attempts for attempts.keep.

For a short definition it shows each condition: whether it holds, and how often the user did it or the value that the
user has. It also shows the message of each step of a sequence, and says if the log does not know the user, or knows the
user under another id.

With --json it is {"key","user","asOf","member","value","since","changes","absence","conditions","steps","unfinished",
"attempts","deadLetters"}; absence is {"reason","user","failing"} or null, its reason condition, unknown or former; a
condition is {"path","condition","says","passes","times","last","value"}, where says is null if its variables are no
text; a step is {"path","condition","event","until","isOver"}; a change is {"change","reason","changedAt","at","run",
"action","definitionHash","cause","event","audience","value","told"}. change is entered, left, changed or "sent again";
reason and changedAt are what receivers are sent (docs/wire.md). cause is what changed a live audience, also if a run
sent it:
{"messageId"}, {"time"}, {"audience"}, {"computed"} or {"deletion":true}; null if everybody was computed again. event is
the {"messageId","type","event","timestamp"} of the message, or null; audience is the key of the one by SQL whose sync
changed it, or null; told is a list of {"destination","reached","attempt","deadLetter"}. member is null if it is no
longer known.`;

export function addWhy(program: Command, context: CliContext): void {
  addAppOptions(program.command('why').description("one user's story in one audience or computed trait"))
    .argument('<key>', 'audience or computed trait')
    .argument('<user>', 'user id')
    .option('--at <time>', 'as it was then', instantOption)
    .addHelpText('after', HELP)
    .action((key: string, user: string, options: WhyOptions) => why(key, user, options, context));
}

async function why(key: string, user: string, options: WhyOptions, { terminal }: CliContext): Promise<void> {
  await withApp(options, { terminal }, async ({ app }) => {
    const story = await app.sync.why(key, user, { at: options.at });
    if (options.json) printJson(terminal, storyLine(story));
    else print(terminal, describe(story, options, terminal));
  });
}

function describe(story: Story, options: WhyOptions, terminal: Terminal): string {
  const lines = [
    standing(story, terminal),
    ...absent(story),
    ...(story.conditions ?? []).map((condition) => conditionText(condition, terminal)),
    ...(story.steps ?? []).map((step) => stepText(step, terminal)),
    ...story.changes.flatMap((change) => changeText(change, terminal)),
  ];
  for (const { id, state, reason } of story.unfinished)
    lines.push(`The run ${id} is ${state}${reason ? `: ${reason}` : '.'}`);
  const [letter] = story.deadLetters;
  if (letter) lines.push(`To send what is dead again: ${hint(options, `dead-letters replay ${letter.id}`)}`);
  return lines.join('\n');
}

function standing({ key, asOf, member, value, since, ...story }: Story, terminal: Terminal): string {
  const user = inLine(story.user);
  const then = asOf === null ? '' : `At ${timeIn(terminal, asOf)}, `;
  if (member === null) return `${then}nobody knows any more whether ${user} was in ${key}: no run of then is kept.`;
  const verb = asOf === null ? 'is' : 'was';
  const what =
    value === null ? `${verb} ${member ? '' : 'not '}in ${key}` : `${asOf === null ? 'has' : 'had'} ${value}`;
  const started = since === null ? '' : `, since the run ${since.id} of ${timeIn(terminal, since.startedAt)}`;
  return `${then}${user} ${what}${started}.`;
}

function absent({ absence, key, user }: Story): readonly string[] {
  if (!absence) return [];
  const { reason, user: current, failing } = absence;
  if (reason === 'unknown') return [`The event log has nothing of a user ${user}.`];
  if (reason === 'former') return [`${user} is a former id of ${current}: rollcall why ${key} ${current}`];
  if (failing.length === 0) return ['The whole condition holds: the next sync adds the user.'];
  return [`Of the condition, this does not hold: ${failing.join(', ')}.`];
}

function conditionText(
  { path, condition, says, passes, times, last, value }: ConditionAnswer,
  terminal: Terminal,
): string {
  const found = [
    ...(times === null ? [] : [times === 1 ? 'once' : `${times} times`]),
    ...(last === null ? [] : [`last ${timeIn(terminal, last)}`]),
    ...(value === null ? [] : [`the value is ${value}`]),
  ].join(', ');
  return inLine(`  ${path}: ${says ?? condition}: ${passes ? 'yes' : 'no'}${found === '' ? '' : ` (${found})`}`);
}

function stepText({ path, condition, event, until, isOver }: StepTaken, terminal: Terminal): string {
  const begun = `  ${path} (${condition}): `;
  const said = event && inLine(`"${event.event}" of ${timeIn(terminal, event.at)}, message ${event.messageId}`);
  if (condition !== 'not') return begun + (said ?? 'no such event after the step before');
  if (said) return `${begun}ended by ${said}`;
  if (until === null) return `${begun}its time has not begun`;
  return `${begun}${isOver ? 'no such event came until' : 'none so far; its time ends at'} ${timeIn(terminal, until)}`;
}

export function changeText(
  { change, reason, value, run, cause, told }: StoryChange,
  terminal: Terminal,
): readonly string[] {
  const said = value === null ? change : `${change} ${change === 'changed' ? 'to' : 'with'} ${value}`;
  const own = change === 'left' ? 'exited' : change;
  const what = reason === null || reason === own ? said : `${said} (reason ${reason})`;
  const tail = told.map((destination) => `    ${toldText(destination, terminal)}`);
  if (run === null) {
    const [at, by] =
      cause === null
        ? ['', 'a run that is no longer kept']
        : [`${timeIn(terminal, cause.at)} `, causeText(cause, terminal)];
    return [`- ${at}${what}, by ${by}`, ...tail];
  }
  const action = run.first ? 'first sync' : run.action;
  const definition = run.definitionHash === '' ? '' : `, definition ${run.definitionHash}`;
  const by = cause === null ? 'by' : `by ${causeText(cause, terminal)}, sent by`;
  return [`- ${timeIn(terminal, run.startedAt)} ${what}, ${by} the ${action} ${run.id}${definition}`, ...tail];
}

function causeText(
  { event, audience, computed, deletion, time }: NonNullable<StoryChange['cause']>,
  terminal: Terminal,
): string {
  const synced = audience ?? computed;
  if (synced !== null) return `the sync of ${synced}`;
  if (deletion) return 'a deletion';
  if (event === null) return time === null ? 'a rebuild' : 'time alone';
  const { type, event: name, messageId, timestamp } = event;
  return inLine(
    `the ${type}${name === null ? '' : ` "${name}"`} of ${timeIn(terminal, timestamp)}, message ${messageId}`,
  );
}

function toldText({ destination, attempt, deadLetter }: ToldDestination, terminal: Terminal): string {
  const colour = stateColours(terminal);
  if (attempt === null && deadLetter === null)
    return `${destination}: no attempt is logged: it waits, or was made before the log begins`;
  const parts = [
    ...(attempt === null
      ? []
      : [
          `${colour(attempt.outcome)} ${answerText(attempt)} at ${timeIn(terminal, attempt.at)} (${Math.round(attempt.ms)} ms), delivery ${attempt.delivery}`,
        ]),
    ...(deadLetter === null ? [] : [`${colour('dead', 'dead letter')} ${deadLetter.id}: ${deadLetter.reason}`]),
  ];
  return `${destination}: ${parts.join('; ')}`;
}
