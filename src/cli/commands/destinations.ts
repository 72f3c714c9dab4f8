import type { Command } from 'commander';
import {
  type DestinationStatus,
  destinationStatuses,
  dropDestination,
  goneDestination,
  isGone,
} from '../../admin/destinations.ts';
import { asUser } from '../as-user.ts';
import { confirm } from '../confirm.ts';
import { type CliContext, EXIT } from '../context.ts';
import { hint } from '../options.ts';
import { duration } from '../output/duration.ts';
import { stateColours } from '../output/state-colours.ts';
import { table, withOwners } from '../output/table.ts';
import { count, note, print, printJson, type Terminal } from '../output/terminal.ts';
import { type AppCommandOptions, addAppOptions, type OpenedApp, withApp } from '../with-app.ts';

const LIST_HELP = `
Destinations of this configuration, of running processes, and of waiting deliveries. A destination that no
process knows keeps its deliveries until processes have run for delivery.removedAfter without it.

With --json a destination is {"destination","state","processes","pending","dead","heldOut","unknownSince",
"unknownFor","removedAfter"}, times in milliseconds, with description, owner and labels if the configuration has them.`;

const DROP_HELP = `
Example:
  $ rollcall destinations drop old-crm

Deliveries of a removed destination become dead letters at once (destination_removed), without waiting for
delivery.removedAfter. They can be replayed once the destination is back. It is refused while this configuration or a
running process has the destination.`;

interface DropOptions extends AppCommandOptions {
  readonly yes?: boolean;
}

export function addDestinations(program: Command, context: CliContext): void {
  const command = program
    .command('destinations')
    .description('show the processes of each destination, and what waits for it');
  addAppOptions(command.command('list', { isDefault: true }).description('show destinations, including removed ones'))
    .addHelpText('after', LIST_HELP)
    .action((options: AppCommandOptions) => list(options, context));
  addAppOptions(command.command('drop').description('give up what waits for a removed destination'))
    .argument('<name...>', 'as the list shows them')
    .option('-y, --yes', 'do not ask')
    .addHelpText('after', DROP_HELP)
    .action((names: string[], options: DropOptions) => drop(names, options, context));
}

async function list(options: AppCommandOptions, { terminal }: CliContext): Promise<void> {
  await withApp(options, { terminal }, async ({ app, config }) => {
    const statuses = await destinationStatuses(app.store, config);
    if (options.json) for (const status of statuses) printJson(terminal, status);
    else if (statuses.length === 0) note(terminal, 'There are no destinations.');
    else print(terminal, statusTable(statuses, terminal));
    const gone = statuses.find((status) => isGone(status) && status.pending > 0);
    if (gone && !options.json)
      note(terminal, `To give one up at once: ${hint(options, `destinations drop ${gone.destination}`)}`);
  });
}

function statusTable(statuses: readonly DestinationStatus[], terminal: Terminal): string {
  const colour = stateColours(terminal);
  const header = ['destination', 'state', 'processes', 'pending', 'dead letters', 'unknown since', 'counted'];
  const rows = statuses.map(({ destination, state, processes, pending, dead, ...rest }) => [
    destination,
    colour(state),
    String(processes),
    String(pending),
    String(dead),
    rest.unknownSince ?? '-',
    rest.unknownSince === null ? '-' : `${duration(rest.unknownFor)} of ${duration(rest.removedAfter)}`,
  ]);
  return table(...withOwners(header, rows, statuses), { width: terminal.stdout.columns, flexible: ['destination'] });
}

async function drop(names: readonly string[], options: DropOptions, context: CliContext): Promise<void> {
  const { terminal, setExitCode } = context;
  await withApp(options, { terminal }, async (opened) => {
    const statuses = await chosen(names, opened);
    const waiting = statuses.reduce((sum, { pending }) => sum + pending, 0);
    const question = `${count(waiting, 'delivery', 'deliveries')} of ${names.join(', ')} would become dead letters.`;
    if (waiting > 0 && !(await confirm(terminal, question, options.yes))) {
      note(terminal, 'Nothing was dropped.');
      setExitCode(EXIT.failed);
      return;
    }
    for (const { destination } of statuses) {
      const deed = { action: 'destination.drop', target: destination };
      const buried = await asUser(opened.app, deed, () =>
        dropDestination(opened.app.store, destination, Number.POSITIVE_INFINITY),
      );
      if (options.json) printJson(terminal, { destination, dropped: buried });
      else print(terminal, `${destination}: ${count(buried, 'delivery', 'deliveries')} made dead letters.`);
    }
  });
}

/** @throws RollcallError `bad_usage` if one is still in use: then none is dropped */
async function chosen(names: readonly string[], { app, config }: OpenedApp): Promise<readonly DestinationStatus[]> {
  const statuses = await destinationStatuses(app.store, config);
  return [...new Set(names)].map((name) => goneDestination(statuses, name));
}
