import type { ClientType } from '../message-types.ts';

/** The log's views by kind of message. */
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

/** Names that users' own tables may have, too. */
const COMMON: ReadonlySet<string> = new Set(['events', 'pages', 'screens', 'groups', 'users', 'aliases', 'identities']);

interface NamedView {
  readonly name: string;
  /** True for qualified names, which only the log's views have. */
  readonly isSure: boolean;
  /** True if few databases have a table of that name. */
  readonly isRare: boolean;
}

/** String literals and comments. Quoted names are kept. */
const SILENT = /'(?:[^']|'')*'|--[^\n]*|\/\*[\s\S]*?\*\//g;
const READ = new RegExp(
  `\\b(?:from|join)\\s+(?<own>"?rollcall_events"?\\."?|"?rollcall_)?"?(?<view>${LOG_VIEWS.join('|')})"?(?![\\w."])`,
  'gi',
);

/**
 * A view of the event log that some SQL seems to read, judged by names. Of several, the one least likely to be a table
 * of the user's.
 */
export function logViewIn(sql: string): NamedView | null {
  const found = [...sql.replaceAll(SILENT, ' ').matchAll(READ)].map(({ groups = {} }) => ({
    name: `${(groups['own'] ?? '').replaceAll('"', '')}${groups['view'] ?? ''}`,
    isSure: groups['own'] !== undefined,
    isRare: !COMMON.has((groups['view'] ?? '').toLowerCase()),
  }));
  return found.find(({ isSure }) => isSure) ?? found.find(({ isRare }) => isRare) ?? found[0] ?? null;
}
