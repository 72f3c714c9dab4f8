import { Argument, type Command } from 'commander';
import { completionScript, SHELLS, type Shell } from '../completion-script.ts';
import type { CliContext } from '../context.ts';
import { jsonOption } from '../options.ts';
import { print, printJson } from '../output/terminal.ts';

const HELP = `
Examples:
  $ rollcall completion bash > /etc/bash_completion.d/rollcall       or: source <(rollcall completion bash)
  $ rollcall completion zsh >> ~/.zshrc
  $ rollcall completion fish > ~/.config/fish/completions/rollcall.fish

It completes commands, options and their choices. Run it again after an upgrade. With --json it prints {"shell",
"script"}.`;

export function addCompletion(program: Command, { terminal }: CliContext): void {
  program
    .command('completion')
    .description('print a script that completes commands and options in your shell')
    .addArgument(new Argument('<shell>', 'your shell').choices(SHELLS))
    .addOption(jsonOption())
    .addHelpText('after', HELP)
    .action((shell: Shell, { json }: { readonly json?: boolean }) => {
      const script = completionScript(program, shell);
      if (json) printJson(terminal, { shell, script });
      else print(terminal, script.trimEnd());
    });
}
