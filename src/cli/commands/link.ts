import type { Command } from 'commander';
import { systemClock } from '../../kernel/clock.ts';
import { RollcallError } from '../../kernel/errors.ts';
import type { CliContext } from '../context.ts';
import { configOption, jsonOption, tokenFileOption, withTokenFile } from '../options.ts';
import { print, printJson } from '../output/terminal.ts';

interface LinkOptions {
  readonly config: string;
  readonly tokenFile?: string;
  readonly json?: boolean;
}

const HELP = `
Example:
  $ rollcall link -c rollcall.yaml

The first person who opens the link is signed in, with all rights of the token. The link is good for ten minutes. On
another machine, put the address of the pages before "/#token=". With --json it prints {"link"}.`;

export function addLink(program: Command, context: CliContext): void {
  program
    .command('link')
    .description('print a link that signs a browser in to the pages, once')
    .addOption(configOption())
    .addOption(tokenFileOption())
    .addOption(jsonOption())
    .addHelpText('after', HELP)
    .action((options: LinkOptions) => printLink(options, context));
}

async function printLink({ config: file, tokenFile, json }: LinkOptions, { terminal }: CliContext): Promise<void> {
  const { adminTokens } = await import('../../admin/token-file.ts');
  const { localUrl, signInLink } = await import('../../admin/sign-in-link.ts');
  const { loadConfig } = await import('../../config/load.ts');
  const config = withTokenFile(loadConfig(file), tokenFile);
  const { listen, admin } = config;
  if (listen.port === 0)
    throw new RollcallError('bad_usage', 'listen.port is 0: only the start of the service knows its port.');
  const link = signInLink(localUrl(listen), adminTokens(config), systemClock);
  if (link === null) {
    const missing = `No token is configured, and there is no ${admin.tokenFile}: start the service, which makes one.`;
    throw new RollcallError('no_admin_token', missing);
  }
  if (json) printJson(terminal, { link });
  else print(terminal, link);
}
