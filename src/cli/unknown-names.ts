import type { Config } from '../config/config.ts';
import { note, type Terminal } from './terminal.ts';

interface Names {
  readonly destination?: string;
  readonly endpoint?: string;
  readonly source?: string;
}

/** Where nothing was found, a mistyped name may be why; a store also knows names that are gone from the configuration. */
export function noteUnknown(terminal: Terminal, config: Config, { destination, endpoint, source }: Names): void {
  const { destinations, sources } = config;
  const missing = [
    destination !== undefined && !destinations.some(({ name }) => name === destination)
      ? `destination ${destination}`
      : null,
    endpoint !== undefined && !destinations.some(({ endpoints }) => endpoints.some(({ id }) => id === endpoint))
      ? `endpoint ${endpoint}`
      : null,
    source !== undefined && !sources.some(({ id }) => id === source) ? `source ${source}` : null,
  ];
  for (const name of missing) if (name !== null) note(terminal, `The configuration has no ${name}.`);
}
