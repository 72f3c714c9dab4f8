import type { Config } from '../config/config.ts';
import type { Destination, Wants } from '../destination.ts';

/** The filters of a destination. Absent parts are not filtered. */
interface Filter extends Wants {
  readonly destination: string;
}

export function filtersOf({ destinations }: Pick<Config, 'destinations'>): readonly Filter[] {
  return destinations.flatMap(({ name, wants }: Destination) => (wants ? [{ destination: name, ...wants }] : []));
}

export function describeFilter({ types, events, audiences }: Filter): string {
  const only = (what: string, names: readonly string[] | undefined) =>
    names === undefined ? [] : [`${what}: ${names.join(', ') || 'none'}`];
  const parts = [...only('types', types), ...only('events', events), ...only('audiences and traits', audiences)];
  return `gets only these ${parts.join('; ')}`;
}
