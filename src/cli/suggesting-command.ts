import { type Argument, Command, type ErrorOptions, type Option } from 'commander';
import { closestMatch } from 'leven';
import { notEmpty } from './options.ts';

/**
 * A command that suggests corrections of misspelt subcommands, which commander takes for arguments if there is a default
 * subcommand. It refuses empty values of options and arguments, unless they have a parser of their own.
 */
export class SuggestingCommand extends Command {
  override createCommand(name?: string): SuggestingCommand {
    return new SuggestingCommand(name);
  }

  override addOption(option: Option): this {
    return super.addOption(option.required && !option.parseArg ? option.argParser(notEmpty) : option);
  }

  override addArgument(argument: Argument): this {
    return super.addArgument(argument.variadic || argument.parseArg ? argument : argument.argParser(notEmpty));
  }

  override error(message: string, options?: ErrorOptions): never {
    if (options?.code !== 'commander.excessArguments') return super.error(message, options);
    const meant = this.meant();
    const help = meant === undefined ? `Type ${this.usages().join(', or ')}` : `Did you mean ${meant}?`;
    return super.error(`${message}\n(${help})`, options);
  }

  private meant(): string | undefined {
    const names = this.group().commands.map((command) => command.name());
    return closestMatch(this.args[0] ?? '', names, { maxDistance: 2 });
  }

  /** The command with the subcommands: this one, or its parent if this is the parent's default. */
  private group(): Command {
    return this.commands.length > 0 || !this.parent?.parent ? this : this.parent;
  }

  private usages(): readonly string[] {
    const group = this.group();
    const commands = group.commands.length > 0 ? group.commands : [group];
    return commands.map((command) => `${pathOf(command)} ${command.usage().replace('[options]', '').trim()}`.trimEnd());
  }
}

function pathOf(command: Command): string {
  return command.parent ? `${pathOf(command.parent)} ${command.name()}` : command.name();
}
