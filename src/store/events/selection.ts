import { isoTime } from '../../kernel/timestamp.ts';
import type { Message } from '../../message.ts';
import type { MessageType } from '../../message-types.ts';
import type { FileLog, IntegrationCount, SelectedEvent, SelectedRow, Selection } from '../event-log.ts';
import type { LogFiles } from './files.ts';
import { Workbench } from './parquet.ts';
import { loadTail, parsed } from './scan.ts';

const DAY = 86_400_000;

const quoted = (text: string) => `'${text.replaceAll("'", "''")}'`;
const timestamp = (ms: number) => `TIMESTAMP '${isoTime(ms).slice(0, -1)}'`;

/** The columns of `SelectedRow`. @param millis - SQL for a time in milliseconds since 1970, as text */
export const selectedColumns = (text: (json: string) => string, millis: (timestamp: string) => string): string =>
  [
    ...['message_id', 'type', 'event', 'user_id', 'anonymous_id', 'previous_id', 'group_id', 'name'],
    ...[millis('"timestamp"'), millis('received_at'), ...['properties', 'traits', 'context', 'rest'].map(text)],
  ].join(', ');

/** Return the message of a row: its body as it was, but for `context.replay` and the order of its keys. */
export function replayedMessage(row: SelectedRow): Message {
  const [messageId, type, event, userId, anonymousId, previousId, groupId, name, ...others] = row;
  const [happened, receivedAt, properties, traits, context, rest] = others;
  const kept = (parsed(rest) ?? {}) as Record<string, unknown>;
  const ids = type === 'alias' ? { 'Previous ID': previousId, 'User ID': userId } : { userId };
  const columns = {
    ...ids,
    ...{ anonymousId, groupId, event, name, properties: parsed(properties), traits: parsed(traits) },
  };
  const body = {
    ...{ version: 1, type, messageId },
    ...Object.fromEntries(Object.entries(columns).filter(([, value]) => value !== null)),
    timestamp: isoTime(Number(happened)),
    ...kept,
    receivedAt: isoTime(Number(receivedAt)),
    context: { ...(parsed(context) as object | null), replay: true },
  };
  return {
    ...{ type: type as MessageType, messageId, userId, body: JSON.stringify(body) },
    event: event ?? undefined,
    integrations: (kept['integrations'] ?? null) as Message['integrations'],
  };
}

/** DuckDB's condition for events of a selection. */
function conditionOf({ types, events, since, until }: Omit<Selection, 'day' | 'source'>): string {
  const named = events === null ? '' : `AND (type <> 'track' OR event IN (${['', ...events].map(quoted).join(', ')}))`;
  return `type IN (${['', ...types].map(quoted).join(', ')}) ${named}
    AND received_at >= ${timestamp(since)} AND received_at < ${timestamp(until)}`;
}

const SELECTED = selectedColumns(
  (json) => `CAST(${json} AS varchar)`,
  (time) => `CAST(epoch_ms(${time}) AS varchar)`,
);
const FIELDS = [
  ...['message_id', 'type', 'event', 'user_id', 'anonymous_id', 'previous_id', 'group_id', 'name', '"timestamp"'],
  ...['received_at', 'properties', 'traits', 'context', 'rest'],
].join(', ');

interface FilesToSelect {
  readonly log: FileLog;
  readonly place: LogFiles;
  readonly token: () => string;
}

/** Read the log: `work` gets a FROM item with the events of these days and sources, or of some more; null for none. */
async function overFiles<T>(
  { log, place, token }: FilesToSelect,
  isWanted: (group: { readonly day: string; readonly source: string }) => boolean,
  sources: readonly string[],
  until: number,
  work: (bench: Workbench, events: string) => Promise<T>,
): Promise<T | null> {
  const before = await log.state();
  // The tail may take a second to read, and has nothing of days that were sealed.
  const needsTail = before.tail.since !== null && until > before.tail.since - DAY;
  if (!needsTail && !before.files.some(isWanted)) return null;
  const bench = await Workbench.open(place, token);
  try {
    const { files } = needsTail ? await loadTail(log, bench) : before;
    const wanted = files.filter(isWanted);
    const parts = [
      ...(needsTail ? [`SELECT ${FIELDS} FROM events WHERE source IN (${sources.map(quoted).join(', ')})`] : []),
      ...(wanted.length > 0 ? [`SELECT ${FIELDS} FROM ${await bench.files(wanted)}`] : []),
    ];
    return parts.length === 0 ? null : await work(bench, `(${parts.join(' UNION ALL ')})`);
  } finally {
    await bench.close();
  }
}

/**
 * Read the next events of a selection from files and the tail, in the order of receipt and message id. That order
 * stays, whatever is sealed, merged or rewritten in the meantime.
 */
export async function selectFromFiles(
  parts: FilesToSelect,
  selection: Selection,
  after: string | null,
  limit: number,
): Promise<readonly SelectedEvent[]> {
  const { day, source } = selection;
  const begin = Date.parse(day);
  const [, at = null, id = ''] = /^(\d+) (.*)$/s.exec(after ?? '') ?? [];
  const since = Math.max(selection.since, begin, Number(at ?? 0));
  const until = Math.min(selection.until, begin + DAY);
  const behind = at === null ? '' : `AND (received_at > ${timestamp(Number(at))} OR message_id > ${quoted(id)})`;
  const isWanted = (group: Pick<Selection, 'day' | 'source'>) => group.day === day && group.source === source;
  const rows = await overFiles(parts, isWanted, [source], until, async (bench, events) => {
    const from = `FROM ${events} WHERE ${conditionOf({ ...selection, since, until })} ${behind}`;
    // Sorting whole events of a large day would take much longer than finding out which are next.
    const [[last] = [null]] = await bench.rows(
      `SELECT CAST(epoch_ms(max(received_at)) AS varchar) FROM (SELECT received_at ${from} ORDER BY 1 LIMIT ${limit})`,
    );
    if (last === null) return [];
    const query = `SELECT ${SELECTED} ${from} AND received_at <= ${timestamp(Number(last))}
      ORDER BY received_at, message_id LIMIT ${limit}`;
    const found: unknown[][] = [];
    // Part by part, as others wait while many rows are converted.
    for await (const columns of bench.stream(query)) {
      for (const index of (columns[0] ?? []).keys()) found.push(columns.map((column) => column[index]));
      await new Promise((resolve) => setImmediate(resolve));
    }
    return found;
  });
  return ((rows ?? []) as unknown as SelectedRow[]).map((row) => {
    const [messageId, , , , , , , , , receivedAt] = row;
    return { place: `${receivedAt} ${messageId}`, message: () => replayedMessage(row) };
  });
}

/** Count the events of a selection over all days, by their integrations. */
export async function countInFiles(
  parts: FilesToSelect,
  selection: Omit<Selection, 'day' | 'source'>,
  sources: readonly string[],
): Promise<readonly IntegrationCount[]> {
  const { since, until } = selection;
  const isWanted = ({ day, source }: Pick<Selection, 'day' | 'source'>) =>
    sources.includes(source) && Date.parse(day) < until && Date.parse(day) + DAY > since;
  const rows = await overFiles(parts, isWanted, sources, until, (bench, events) =>
    bench.rows(`SELECT CAST(json_extract(rest, '$.integrations') AS varchar), count(*)
      FROM ${events} WHERE ${conditionOf(selection)} GROUP BY 1`),
  );
  return (rows ?? []).map(([integrations, events]) => [integrations as string | null, Number(events)]);
}
