import type { App } from '../app.ts';
import { hint } from './options.ts';
import { note, type Terminal } from './terminal.ts';
import type { AppCommandOptions } from './with-app.ts';

/** Names audiences that nobody configures any more, and whose end nobody has announced. */
export async function noteOrphans(
  { sync }: App,
  terminal: Terminal,
  options: AppCommandOptions,
  except: readonly string[] = [],
): Promise<void> {
  for (const { key } of await sync.orphans()) {
    if (except.includes(key)) continue;
    note(terminal, `${key} is no longer configured: ${hint(options, `retire ${key}`)} ends it`);
  }
}
