import { Command, type ErrorOptions } from 'commander';
import { closestMatch } from 'leven';

/** A command that helps with misspelt subcommands. Where one of them runs by itself, commander takes them for arguments. */
export class SuggestingCommand extends Command {
  override createCommand(name?: string): SuggestingCommand {
    return new SuggestingCommand(name);
  }

  override error(message: string, options?: ErrorOptions): never {
    const meant = options?.code === 'commander.excessArguments' ? this.meant() : undefined;
    return super.error(meant === undefined ? message : `${message}\n(Did you mean ${meant}?)`, options);
  }

  private meant(): string | undefined {
    const group = this.commands.length > 0 || !this.parent?.parent ? this : this.parent;
    const names = group.commands.map((command) => command.name());
    return closestMatch(this.args[0] ?? '', names, { maxDistance: 2 });
  }
}
