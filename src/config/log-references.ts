import { checkLogIsSeen } from './event-log.ts';
import type { Mistake, Path } from './mistakes.ts';
import { engineIn, engineNames, type FileOutline } from './outline.ts';

/**
 * Mistakes of definitions that read the event log, if there is none or their engine does not see it.
 *
 * @param wrong - known mistakes. It is unknown what an engine or store with a mistake would see.
 */
export function checkLogReferences(file: FileOutline, wrong: readonly Mistake[]): readonly Mistake[] {
  const isWrong = (...place: Path) => wrong.some(({ path }) => place.every((part, index) => path[index] === part));
  const [defaultEngine = ''] = engineNames(file.engines);
  const sight = {
    isKept: file.eventLog !== undefined || isWrong('eventLog'),
    store: file.store,
    engine: (name: string) => (isWrong('store') || isWrong('engines', name) ? undefined : engineIn(file, name)),
  };
  const check = (path: Path, engine: string, short: string | null, sql: unknown) =>
    checkLogIsSeen(sight, path, { engine: engine || defaultEngine, short, sql: typeof sql === 'string' ? sql : null });
  return [
    ...file.audiences.flatMap((item, index) =>
      item ? check(['audiences', index], item.engine, item.when === undefined ? null : 'when', item.sql) : [],
    ),
    ...file.traits.flatMap((item, index) =>
      item ? check(['traits', index], item.engine, item.value === undefined ? null : 'value', item.sql) : [],
    ),
  ];
}
