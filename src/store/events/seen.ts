import type { EventLog, FileLog, SeenRow, SeenType } from '../event-log.ts';
import type { LogFiles } from './files.ts';
import { Workbench } from './parquet.ts';
import { loadLog } from './scan.ts';

/** A track event that the log has seen. */
export interface SeenEvent {
  readonly name: string;
  readonly properties: readonly SeenProperty[];
}

interface SeenProperty {
  readonly name: string;
  readonly types: readonly SeenType[];
  /** True if every event of this name had it. */
  readonly isRequired: boolean;
}

/** The most events, most frequent first, and the most properties. */
const EVENTS_LIMIT = 500;
const PROPERTIES_LIMIT = 20_000;

interface SeenDialect {
  /** A FROM item with the members of an object. */
  readonly each: string;
  /** The JSON type of a member, in lowercase. */
  readonly type: string;
}

const DUCKDB: SeenDialect = {
  each: 'json_each(coalesce(tracks.properties, $$null$$::json))',
  type: `CASE member.type WHEN 'VARCHAR' THEN 'string' WHEN 'BOOLEAN' THEN 'boolean' WHEN 'OBJECT' THEN 'object'
    WHEN 'ARRAY' THEN 'array' WHEN 'NULL' THEN 'null' ELSE 'number' END`,
};
const POSTGRES: SeenDialect = {
  each: "jsonb_each(CASE WHEN jsonb_typeof(tracks.properties) = 'object' THEN tracks.properties ELSE '{}' END)",
  type: 'jsonb_typeof(member.value)',
};

/** Rows `[event, times seen, property, type, times seen]`; without properties the last three are null. */
function seenQuery(events: string, { each, type }: SeenDialect): string {
  const tracks = `(SELECT event, properties FROM ${events} AS log WHERE type = 'track' AND event IS NOT NULL)`;
  return `WITH names AS (
      SELECT event, count(*) AS seen FROM ${tracks} AS tracks GROUP BY event ORDER BY seen DESC, event LIMIT ${EVENTS_LIMIT}
    ), members AS (
      SELECT tracks.event, member.key, ${type} AS type, count(*) AS seen
      FROM ${tracks} AS tracks JOIN names ON names.event = tracks.event, ${each} AS member GROUP BY 1, 2, 3
    )
    SELECT names.event, CAST(names.seen AS double precision), members.key, members.type,
      CAST(members.seen AS double precision)
    FROM names LEFT JOIN members ON members.event = names.event ORDER BY 1, 3, 4 LIMIT ${PROPERTIES_LIMIT}`;
}

export const POSTGRES_SEEN = (events: string) => seenQuery(events, POSTGRES);

/**
 * The track events in the log, with the types of their properties. It reads the whole log, but returns no values.
 *
 * @param token - makes names that no other file has
 */
export async function seenEvents(log: EventLog, place: LogFiles, token: () => string): Promise<readonly SeenEvent[]> {
  return eventsOf(log.kind === 'table' ? await log.seen() : await seenInFiles(log, place, token));
}

async function seenInFiles(log: FileLog, place: LogFiles, token: () => string): Promise<SeenRow[]> {
  const { files, tail } = await log.state();
  if (files.length === 0 && tail.events === 0) return [];
  const bench = await Workbench.open(place, token);
  try {
    const { events } = await loadLog(log, bench);
    return (await bench.rows(seenQuery(events, DUCKDB))) as unknown as SeenRow[];
  } finally {
    await bench.close();
  }
}

function eventsOf(rows: readonly SeenRow[]): SeenEvent[] {
  const events = new Map<string, Map<string, { types: SeenType[]; seen: number }>>();
  const times = new Map<string, number>();
  for (const [event, seen, property, type, timesProperty] of rows) {
    const properties = events.get(event) ?? new Map();
    events.set(event, properties);
    times.set(event, seen);
    if (property === null || type === null) continue;
    const known = properties.get(property) ?? { types: [], seen: 0 };
    properties.set(property, { types: [...known.types, type], seen: known.seen + (timesProperty ?? 0) });
  }
  return [...events].map(([name, properties]) => ({
    name,
    properties: [...properties].map(([property, { types, seen }]) => ({
      name: property,
      types,
      isRequired: seen >= (times.get(name) ?? 0),
    })),
  }));
}
