import type { App } from '../app.ts';
import { note, type Terminal } from './terminal.ts';

/** Tells of audiences that nobody configures any more, whose members were never told that they are over. */
export async function noteOrphans({ sync }: App, terminal: Terminal, except: readonly string[] = []): Promise<void> {
  for (const { key } of await sync.orphans()) {
    if (!except.includes(key)) note(terminal, `${key} is no longer configured: rollcall retire ${key} ends it`);
  }
}
