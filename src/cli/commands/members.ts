import { type Command, Option } from 'commander';
import type { Context } from '../context.ts';
import { type AppCommandOptions, addAppOptions, withApp } from '../with-app.ts';
import { csvField, writeLines } from '../write.ts';

const HELP = `
Examples:
  $ rollcall members big_spenders | wc -l
  $ rollcall members lifetime_value --csv > lifetime_value.csv

It prints the members as last synced, in no order, as a stream: a million of them need no more memory than ten.
--csv has a first line user_id, and for a trait its value columns, with lists and structs as JSON. With --json a member is {"userId"}, of a
trait {"userId","traits"}.`;

interface MembersOptions extends AppCommandOptions {
  readonly csv?: boolean;
}

export function addMembers(program: Command, context: Context): void {
  addAppOptions(program.command('members').description('list the members of an audience, or the values of a trait'))
    .argument('<key>', 'audience or computed trait')
    .addOption(new Option('--csv', 'as CSV with a header').conflicts('json'))
    .addHelpText('after', HELP)
    .action((key: string, options: MembersOptions) => members(key, options, context));
}

async function members(key: string, options: MembersOptions, { terminal }: Context): Promise<void> {
  await withApp(options, { terminal }, async ({ app }) => {
    // An audience has none.
    const columns = (await app.store.audience(key))?.columns ?? [];
    let header = options.csv ? [['user_id', ...columns].map(csvField).join(',')] : [];
    const write = async (lines: readonly string[]) => {
      await writeLines(terminal, [...header, ...lines]);
      header = [];
    };
    await app.sync.members(key, ({ userIds, values }) =>
      write(userIds.map((userId, row) => memberLine(userId, values[row] ?? null, columns, options))),
    );
    await write([]);
  });
}

function memberLine(
  userId: string,
  value: string | null,
  columns: readonly string[],
  { csv, json }: MembersOptions,
): string {
  if (json) return JSON.stringify(value === null ? { userId } : { userId, traits: JSON.parse(value) });
  if (!csv) return value === null ? userId : `${userId}\t${value}`;
  const traits = value === null ? {} : (JSON.parse(value) as Record<string, unknown>);
  return [userId, ...columns.map((column) => cell(traits[column]))].map(csvField).join(',');
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}
