import { type Argument, Command, type ErrorOptions, type Option } from 'commander';
import { closestMatch } from 'leven';
import { notEmpty } from './options.ts';

/**
 * A command that helps with misspelt subcommands. Where one of them runs by itself, commander takes them for arguments. It
 * refuses empty values of options and arguments, unless they have a parser of their own.
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

  /** The command that has subcommands: this one, or the one that this one stands for. */
  private group(): Command {
    return this.commands.length > 0 || !this.parent?.parent ? this : this.parent;
  }

  /** What can be typed here. */
  private usages(): readonly string[] {
    const group = this.group();
    const commands = group.commands.length > 0 ? group.commands : [group];
    return commands.map((command) => `${pathOf(command)} ${command.usage().replace('[options]', '').trim()}`.trimEnd());
  }
}

/** Its name behind those of its parents. */
function pathOf(command: Command): string {
  return command.parent ? `${pathOf(command.parent)} ${command.name()}` : command.name();
}
