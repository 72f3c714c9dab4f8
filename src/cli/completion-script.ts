import type { Command, Option } from 'commander';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

interface Entry {
  readonly path: string;
  readonly description: string;
  readonly subcommands: readonly string[];
  readonly options: readonly Option[];
  readonly choices: readonly string[];
}

export function completionScript(program: Command, shell: Shell): string {
  const entries = entriesOf(program, '');
  if (shell === 'fish') return fish(entries);
  const script = bash(entries);
  return shell === 'zsh' ? `${ZSH}${script}` : script;
}

/** zsh runs bash's script once its own completion is loaded, which some `.zshrc` files do not do. */
const ZSH = `(( $+functions[compdef] )) || { autoload -U compinit && compinit -i }
autoload -U +X bashcompinit && bashcompinit
`;

function entriesOf(command: Command, path: string): readonly Entry[] {
  const visible = command.createHelp().visibleCommands(command);
  const own: Entry = {
    path,
    description: command.summary() || command.description(),
    subcommands: visible.map((each) => each.name()),
    options: command.createHelp().visibleOptions(command),
    choices: command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []),
  };
  const below = visible.filter((each) => each.name() !== 'help');
  return [own, ...below.flatMap((each) => entriesOf(each, `${path} ${each.name()}`.trim()))];
}

const flags = ({ short, long }: Option) => [short, long].filter((flag) => flag !== undefined);
const takesValue = ({ required, optional }: Option) => required || optional;
const takesFile = ({ flags }: Option) => /file>/.test(flags);

/** Completes an option's choices after that option, files after an option for a file, and nothing after others. */
function bash(entries: readonly Entry[]): string {
  const paths = entries.filter(({ path }) => path !== '').map(({ path }) => path);
  const words = entries.map(({ path, subcommands, options, choices }) => {
    const all = [...subcommands, ...choices, ...options.flatMap(flags)].join(' ');
    return `    '${path}') words='${all}' ;;`;
  });
  const values = entries.flatMap(({ path, options }) =>
    options.filter(takesValue).map((option) => {
      const patterns = flags(option).map((flag) => `'${path} ${flag}'`);
      return `    ${patterns.join('|')}) ${bashValues(option)}; return ;;`;
    }),
  );
  return `# Made by \`rollcall completion\`.
_rollcall() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" at='' word words=''
  COMPREPLY=()
  # With a dollar sign: zsh takes a letter after the colon for a modifier.
  for word in "\${COMP_WORDS[@]:1:$((COMP_CWORD-1))}"; do
    case "|${paths.join('|')}|" in
      *"|\${at:+$at }$word|"*) at="\${at:+$at }$word" ;;
    esac
  done
  case "$at $previous" in
${values.join('\n')}
  esac
  case "$at" in
${words.join('\n')}
  esac
  COMPREPLY=( $(compgen -W "$words" -- "$current") )
}
complete -o default -F _rollcall rollcall
`;
}

function bashValues(option: Option): string {
  const { argChoices } = option;
  if (argChoices) return `COMPREPLY=( $(compgen -W '${argChoices.join(' ')}' -- "$current") )`;
  // Without compopt, as in zsh, files are offered all the same.
  return takesFile(option) ? 'COMPREPLY=( $(compgen -f -- "$current") )' : 'compopt +o default 2>/dev/null';
}

const quoted = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;

function fish(entries: readonly Entry[]): string {
  const lines = entries.flatMap((entry) => {
    const condition = fishCondition(entry);
    const commands = entries
      .filter(
        ({ path }) => entry.subcommands.includes(path.slice(entry.path.length).trim()) && path.startsWith(entry.path),
      )
      .map(({ path, description }) => {
        const name = path.split(' ').at(-1) ?? '';
        return `complete -c rollcall -f -n ${quoted(condition)} -a ${quoted(name)} -d ${quoted(description)}`;
      });
    const options = entry.options.map((option) => {
      const long = option.long === undefined ? '' : ` -l ${option.long.slice(2)}`;
      const short = option.short === undefined ? '' : ` -s ${option.short.slice(1)}`;
      const value = takesValue(option)
        ? option.argChoices
          ? ` -x -a ${quoted(option.argChoices.join(' '))}`
          : takesFile(option)
            ? ' -r'
            : ' -x'
        : '';
      return `complete -c rollcall -n ${quoted(condition)}${long}${short}${value} -d ${quoted(option.description)}`;
    });
    const choices = entry.choices.map(
      (choice) => `complete -c rollcall -f -n ${quoted(condition)} -a ${quoted(choice)}`,
    );
    return [...commands, ...options, ...choices];
  });
  return `# Made by \`rollcall completion\`.\n${lines.join('\n')}\n`;
}

/** True if the words so far name this command, and none of its subcommands. */
function fishCondition({ path, subcommands }: Entry): string {
  if (path === '') return '__fish_use_subcommand';
  const seen = path.split(' ').map((word) => `__fish_seen_subcommand_from ${word}`);
  const none = subcommands.length > 0 ? [`not __fish_seen_subcommand_from ${subcommands.join(' ')}`] : [];
  return [...seen, ...none].join('; and ');
}
