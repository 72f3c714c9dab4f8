import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { CliContext } from '../context.ts';
import { note, print } from '../output/terminal.ts';
import { writing } from '../output/write-file.ts';
import { typesFile } from '../types-file.ts';
import { withoutMakingStore } from '../unmade-store.ts';
import { type AppCommandOptions, addAppOptions, withApp } from '../with-app.ts';

interface TypesOptions extends AppCommandOptions {
  readonly output?: string;
}

const HELP = `
Example:
  $ rollcall types -c rollcall.yaml -o src/rollcall.d.ts

With that file in a receiver's sources, a handler for an unknown audience or trait does not compile. Values of traits
have their types. Definitions are checked in their engines, not run.`;

export function addTypes(program: Command, context: CliContext): void {
  addAppOptions(
    program.command('types').description("write the TypeScript types of audiences and traits, for receivers' handlers"),
  )
    .option('-o, --output <file>', 'write to this file instead of standard output')
    .addHelpText('after', HELP)
    .action((options: TypesOptions) => types(options, context));
}

async function types(options: TypesOptions, { terminal }: CliContext): Promise<void> {
  // `withApp` changes the working directory.
  const output = options.output === undefined ? null : resolve(options.output);
  const found = await withApp(options, { terminal, adapt: withoutMakingStore }, ({ app }) => app.sync.types());
  const text = options.json ? found.map((each) => `${JSON.stringify(each)}\n`).join('') : typesFile(found);
  if (output === null) {
    if (text !== '') print(terminal, text.trimEnd());
    return;
  }
  writing(() => writeFileSync(output, text));
  note(terminal, `Wrote ${output}.`);
}
