import type { Config } from '../config/config.ts';
import { suggestion } from '../kernel/spelling.ts';
import { note, type Terminal } from './output/terminal.ts';

interface Names {
  readonly destination?: string;
  readonly endpoint?: string;
  readonly source?: string;
}

/** Point out names that are not configured, in case one is mistyped. The store may still know removed names. */
export function noteUnknown(terminal: Terminal, config: Config, { destination, endpoint, source }: Names): void {
  const { destinations, sources } = config;
  const given: readonly (readonly [what: string, name: string | undefined, known: readonly string[]])[] = [
    ['destination', destination, destinations.map(({ name }) => name)],
    ['endpoint', endpoint, destinations.flatMap(({ endpoints }) => endpoints.map(({ id }) => id))],
    ['source', source, sources.map(({ id }) => id)],
  ];
  for (const [what, name, known] of given) {
    if (name === undefined || known.includes(name)) continue;
    const help = suggestion(name, known);
    note(terminal, `The configuration has no ${what} ${name}${help.endsWith('?') ? help : `${help}.`}`);
  }
}
