import type { ClientType } from '../message-types.ts';

/** The view of each kind's messages. */
export const KIND_VIEWS = {
  track: 'tracks',
  identify: 'identifies',
  page: 'pages',
  screen: 'screens',
  group: 'groups',
  alias: 'aliases',
} as const satisfies Record<ClientType, string>;

/** Names of the views over the event log (docs/event-log.md). */
export const LOG_VIEWS = ['events', ...Object.values(KIND_VIEWS), 'identity_links', 'identities', 'users'] as const;

/** Names that others give their own tables, too. */
const COMMON: ReadonlySet<string> = new Set(['events', 'pages', 'screens', 'groups', 'users', 'aliases', 'identities']);

interface NamedView {
  readonly name: string;
  /** It can be nothing else: only the log's views have such names. */
  readonly isSure: boolean;
  /** Few people have a table of that name. */
  readonly isRare: boolean;
}

/** Text, and what follows `--` or stands between the signs of a comment. Quoted names are kept. */
const SILENT = /'(?:[^']|'')*'|--[^\n]*|\/\*[\s\S]*?\*\//g;
const READ = new RegExp(
  `\\b(?:from|join)\\s+(?<own>"?rollcall_events"?\\."?|"?rollcall_)?"?(?<view>${LOG_VIEWS.join('|')})"?(?![\\w."])`,
  'gi',
);

/**
 * A view of the event log that some SQL reads, as far as its names say: of several the one that is least likely another
 * table.
 */
export function logViewIn(sql: string): NamedView | null {
  const found = [...sql.replaceAll(SILENT, ' ').matchAll(READ)].map(({ groups = {} }) => ({
    name: `${(groups['own'] ?? '').replaceAll('"', '')}${groups['view'] ?? ''}`,
    isSure: groups['own'] !== undefined,
    isRare: !COMMON.has((groups['view'] ?? '').toLowerCase()),
  }));
  return found.find(({ isSure }) => isSure) ?? found.find(({ isRare }) => isRare) ?? found[0] ?? null;
}
