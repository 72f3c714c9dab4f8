import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import t from 'tap';
import { buildProgram } from '../../src/cli/program.ts';

const FILE = join(import.meta.dirname, '../../docs/cli.md');
const HEAD = `# Command line

Made from \`rollcall --help\` by \`npm run reference\`; a test holds the two together. Without
\`-c FILE\` a command reads the file that \`ROLLCALL_CONFIG\` names, or else \`rollcall.yaml\` in the working directory.
`;

/** A command's help, as wide as this page, and that of the commands below it. */
function helpOf(command: Command, path: string): string {
  let text = '';
  const take = (more: string) => {
    text += more;
  };
  command.configureOutput({ writeOut: take, getOutHelpWidth: () => 110 });
  command.outputHelp();
  const below = command.commands.map((each) => helpOf(each, `${path} ${each.name()}`));
  return [`\n## ${path}\n\n\`\`\`text\n${text.trim()}\n\`\`\`\n`, ...below].join('');
}

t.test('docs/cli.md is what the command line says of itself', async (t) => {
  const { stdin, stdout, stderr } = process;
  const program = buildProgram({ stdin, stdout, stderr, signal: new AbortController().signal }, () => {});
  const text = HEAD + helpOf(program, 'rollcall');
  if (process.env['REFERENCE'] === 'write') writeFileSync(FILE, text);
  t.equal(readFileSync(FILE, 'utf8'), text, 'npm run reference writes it anew');
  t.ok(text.split('\n## ').length > 30);
});
