import { type Command, Option } from 'commander';
import type { MemberBatch, Sync } from '../../../jobs/index.ts';
import type { CliContext } from '../context.ts';
import { placeOption, wholeNumber } from '../options.ts';
import { inLine } from '../output/terminal.ts';
import { csvField, writeLines } from '../output/write-lines.ts';
import { type AppCommandOptions, addAppOptions, withApp } from '../with-app.ts';

const HELP = `
Examples:
  $ rollcall members big_spenders | wc -l
  $ rollcall members lifetime_value --csv > lifetime_value.csv
  $ rollcall members big_spenders -n 50              the first 50, in the order of their ids
  $ rollcall members big_spenders -n 50 --after u17  the next 50 after u17

It prints the members as last synced, in no order, as a stream: a million of them need no more memory than ten.
With -n or --after they are in the order of their ids, as bytes.
--csv has a first line user_id, and for a trait its value columns, with lists and structs as JSON. Text that begins
with = + - @, a tab or a line break gets a ' in front, so that a spreadsheet does not compute it. Without --csv and
--json, control characters are shown as \\u000a. With --json a member is {"userId"}, of a trait {"userId","traits"}.`;

interface MembersOptions extends AppCommandOptions {
  readonly csv?: boolean;
  readonly after?: string;
  readonly limit?: number;
}

const PAGE = 5_000;

export function addMembers(program: Command, context: CliContext): void {
  addAppOptions(program.command('members').description('list the members of an audience, or the values of a trait'))
    .argument('<key>', 'audience or computed trait')
    .addOption(new Option('--csv', 'as CSV with a header').conflicts('json'))
    .option('-n, --limit <n>', 'at most this many, in the order of their ids', wholeNumber(1, 1_000_000_000))
    .option('--after <id>', 'only those after this user, in the order of their ids', placeOption)
    .addHelpText('after', HELP)
    .action((key: string, options: MembersOptions) => members(key, options, context));
}

async function members(key: string, options: MembersOptions, { terminal }: CliContext): Promise<void> {
  await withApp(options, { terminal }, async ({ app }) => {
    const columns = (await app.store.audience(key))?.columns ?? [];
    let header = options.csv ? [['user_id', ...columns].map(csvField).join(',')] : [];
    const write = async (lines: readonly string[]) => {
      await writeLines(terminal, [...header, ...lines]);
      header = [];
    };
    const show = ({ userIds, values }: MemberBatch) =>
      write(userIds.map((userId, row) => memberLine(userId, values[row] ?? null, columns, options)));
    const isOrdered = options.limit !== undefined || options.after !== undefined;
    await (isOrdered ? inOrder(app.sync, key, options, show) : app.sync.members(key, show));
    await write([]);
  });
}

async function inOrder(
  sync: Pick<Sync, 'memberPage'>,
  key: string,
  { after = '', limit = Number.POSITIVE_INFINITY }: MembersOptions,
  show: (page: MemberBatch) => Promise<void>,
): Promise<void> {
  let [place, left] = [after, limit];
  while (left > 0) {
    const size = Math.min(left, PAGE);
    const page = await sync.memberPage(key, place, size);
    await show(page);
    if (page.userIds.length < size) return;
    left -= size;
    place = page.userIds.at(-1) ?? place;
  }
}

function memberLine(
  userId: string,
  value: string | null,
  columns: readonly string[],
  { csv, json }: MembersOptions,
): string {
  if (json) return JSON.stringify(value === null ? { userId } : { userId, traits: JSON.parse(value) });
  if (!csv) return value === null ? inLine(userId) : `${inLine(userId)}\t${inLine(value)}`;
  const traits = value === null ? {} : (JSON.parse(value) as Record<string, unknown>);
  return [userId, ...columns.map((column) => traits[column])].map(csvField).join(',');
}
