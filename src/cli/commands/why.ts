import type { Command } from 'commander';
import type { Story } from '../../../jobs/index.ts';
import type { Context } from '../context.ts';
import { runLines } from '../show-run.ts';
import { print, printJson, type Terminal } from '../terminal.ts';
import { type AppCommandOptions, addAppOptions, withApp } from '../with-app.ts';
import { attemptLine, attemptTable } from './endpoints.ts';

export function addWhy(program: Command, context: Context): void {
  addAppOptions(program.command('why').description("one user's story in one audience or computed trait"))
    .argument('<key>', 'audience or computed trait')
    .argument('<user>', 'user id')
    .addHelpText('after', '\nExample:\n  $ rollcall why big_spenders customer-7')
    .action((key: string, user: string, options: AppCommandOptions) => why(key, user, options, context));
}

async function why(key: string, user: string, options: AppCommandOptions, { terminal }: Context): Promise<void> {
  await withApp(options, { terminal }, async ({ app }) => {
    const story = await app.sync.why(key, user);
    if (options.json) printJson(terminal, await line(story));
    else print(terminal, describe(story, terminal));
  });
}

const NOTHING_LOGGED = 'No attempt is logged: nothing was sent, it still waits, or it was sent before the log begins.';

async function line({ since, unfinished, attempts, deadLetters, value, ...story }: Story) {
  return {
    ...story,
    value: value === null ? null : JSON.parse(value),
    since: since && (await runLines([since]))[0],
    unfinished: await runLines(unfinished),
    attempts: attempts.map(attemptLine),
    deadLetters: deadLetters.map(({ id, destination, reason, status }) => ({ id, destination, reason, status })),
  };
}

function describe(
  { key, user, member, value, since, unfinished, attempts, deadLetters }: Story,
  terminal: Terminal,
): string {
  const standing = value === null ? (member ? `is in ${key}` : `is not in ${key}`) : `has ${value}`;
  const started = since === null ? '' : `, since the run ${since.id} of ${new Date(since.startedAt).toISOString()}`;
  const lines = [`${user} ${standing}${started}.`];
  for (const { id, state, reason } of unfinished)
    lines.push(`The run ${id} is ${state}${reason ? `: ${reason}` : '.'}`);
  for (const { id, destination, reason } of deadLetters) lines.push(`Dead letter ${id} for ${destination}: ${reason}.`);
  lines.push(attempts.length === 0 ? NOTHING_LOGGED : attemptTable(attempts, terminal));
  return lines.join('\n');
}
