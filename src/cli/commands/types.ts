import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { systemClock } from '../../kernel/clock.ts';
import type { CliContext } from '../context.ts';
import { note, print } from '../output/terminal.ts';
import { writing } from '../output/write-file.ts';
import { typesFile } from '../types-file.ts';
import { withoutMakingStore } from '../unmade-store.ts';
import { type AppCommandOptions, addAppOptions, type OpenedApp, withApp } from '../with-app.ts';

interface TypesOptions extends AppCommandOptions {
  readonly output?: string;
}

const HELP = `
Example:
  $ rollcall types -c rollcall.yaml -o src/rollcall.d.ts

With that file in a receiver's sources, a handler for an unknown audience, trait or event does not compile. Values of
traits have their types. Definitions are checked in their engines, not run. Events are those that the event log has
seen, the 500 most frequent ones, with the types of their properties: new Client<Events>(KEY) sends them.`;

export function addTypes(program: Command, context: CliContext): void {
  addAppOptions(
    program
      .command('types')
      .description("write the TypeScript types of audiences, traits and events, for receivers' handlers"),
  )
    .option('-o, --output <file>', 'write to this file instead of standard output')
    .addHelpText('after', HELP)
    .action((options: TypesOptions) => types(options, context));
}

async function types(options: TypesOptions, { terminal }: CliContext): Promise<void> {
  // `withApp` changes the working directory.
  const output = options.output === undefined ? null : resolve(options.output);
  const { computed, events } = await withApp(options, { terminal, adapt: withoutMakingStore }, typesOf);
  const all = [...computed, ...events.map((event) => ({ kind: 'event', ...event }))];
  const text = options.json ? all.map((each) => `${JSON.stringify(each)}\n`).join('') : typesFile(computed, events);
  if (output === null) {
    if (text !== '') print(terminal, text.trimEnd());
    return;
  }
  writing(() => writeFileSync(output, text));
  note(terminal, `Wrote ${output}.`);
}

async function typesOf({ app, config: { eventLog } }: OpenedApp) {
  const computed = await app.sync.types();
  if (eventLog === null) return { computed, events: [] };
  const { seenEvents } = await import('../../store/events/seen.ts');
  const { filesOf } = await import('../../store/events/open-files.ts');
  return { computed, events: await seenEvents(app.store.events, filesOf(eventLog), () => systemClock.token(8)) };
}
