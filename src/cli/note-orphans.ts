import type { App } from '../app.ts';
import { hint } from './options.ts';
import { note, type Terminal } from './output/terminal.ts';
import type { AppCommandOptions } from './with-app.ts';

/** Name audiences that are no longer configured and not retired yet. */
export async function noteOrphans(
  { sync }: App,
  terminal: Terminal,
  options: AppCommandOptions,
  except: readonly string[] = [],
): Promise<void> {
  const keys = (await sync.orphans()).map(({ key }) => key).filter((key) => !except.includes(key));
  const [first] = keys;
  if (first === undefined) return;
  if (keys.length === 1)
    note(terminal, `${first} is no longer configured: ${hint(options, `retire ${first}`)} ends it`);
  else note(terminal, `${keys.join(', ')} are no longer configured: ${hint(options, 'retire KEY')} ends one of them`);
}
