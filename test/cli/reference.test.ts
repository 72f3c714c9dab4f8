import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import t from 'tap';
import { buildProgram } from '../../src/cli/program.ts';

const FILE = join(import.meta.dirname, '../../docs/cli.md');
const HEAD = `# Command line

\`npm run reference\` writes this page from \`rollcall --help\`. The [walkthrough](operating.md) shows what commands print.
Every command has these options, the first one if it reads a configuration. They are left out below:

\`\`\`text
  -c, --config <file>  configuration file (default: "rollcall.yaml", env: ROLLCALL_CONFIG)
  --json               print one JSON object per line; logs stay on stderr
  -h, --help           display help for command
\`\`\`
`;

/** What nearly every command has: the page says it once. */
const COMMON = [
  /^ {2}-c, --config <file> +configuration file \(default: "rollcall\.yaml", env: ROLLCALL_CONFIG\)\n/m,
  /^ {2}--json +print one JSON object per line; logs stay on stderr\n/m,
  /^ {2}-h, --help +display help for command(?:\n|$)/m,
  /^ {2}help \[command\] +display help for command(?:\n|$)/m,
  /^Options:\n(?:\n|$)/m,
];

/** A command's help, as wide as this page, and that of the commands below it. */
function helpOf(command: Command, path: string): string {
  let text = '';
  const take = (more: string) => {
    text += more;
  };
  command.configureOutput({ writeOut: take, getOutHelpWidth: () => 110 });
  command.outputHelp();
  const below = command.commands.map((each) => helpOf(each, `${path} ${each.name()}`));
  const own = COMMON.reduce((help, common) => help.replace(common, ''), text.trim());
  return [`\n## ${path}\n\n\`\`\`text\n${own.trim()}\n\`\`\`\n`, ...below].join('');
}

t.test('docs/cli.md is what the command line says of itself', async (t) => {
  const { stdin, stdout, stderr } = process;
  const program = buildProgram({ stdin, stdout, stderr, signal: new AbortController().signal }, () => {});
  const text = HEAD + helpOf(program, 'rollcall');
  if (process.env['REFERENCE'] === 'write') writeFileSync(FILE, text);
  t.equal(readFileSync(FILE, 'utf8'), text, 'npm run reference writes it anew');
  t.ok(text.split('\n## ').length > 30);
});
