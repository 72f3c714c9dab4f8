import { readFileSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { readNamed, unreadable } from './files.ts';
import { type Mistake, type Path, showPath } from './mistakes.ts';
import { engineIn, type FileOutline } from './outline.ts';

/** Puts the text of each `sqlFile` in its place as `sql`. The files are by the paths of their audiences and traits. */
export function withSqlFiles(content: unknown, folderOf: (path: Path) => string) {
  const files = new Map<string, string>();
  const mistakes: Mistake[] = [];
  const filled: Record<string, unknown> = { ...(content as object) };
  for (const section of ['audiences', 'traits']) {
    const items = filled[section];
    if (!Array.isArray(items)) continue;
    filled[section] = items.map((item: unknown, index) => {
      const { sqlFile, ...rest } = { ...(item as Readonly<Record<string, unknown>>) };
      if (typeof sqlFile !== 'string' || sqlFile === '' || rest['sql'] !== undefined) return item;
      const path = [section, index];
      const file = resolve(folderOf(path), sqlFile);
      try {
        const sql = readNamed(file);
        files.set(showPath(path), file);
        return { ...rest, sql };
      } catch (error) {
        mistakes.push({ path: [...path, 'sqlFile'], message: `names ${sqlFile}, which ${unreadable(error)}` });
        return item;
      }
    });
  }
  return { content: typeof content === 'object' && !Array.isArray(content) ? filled : content, files, mistakes };
}

/** Mistakes in the files that a configuration names. */
export function checkFiles(file: FileOutline, folder: string): readonly Mistake[] {
  return [...checkCertificates(file.network.ca, folder), ...checkSnapshots(file, folder)];
}

/** @throws Error with the fault as its message */
export function readCertificate(path: string, folder: string): string {
  const pem = readFileSync(resolve(folder, path), 'utf8');
  if (!pem.includes('-----BEGIN CERTIFICATE-----')) throw new Error('holds no PEM certificate');
  return pem;
}

function checkCertificates(paths: readonly string[], folder: string): readonly Mistake[] {
  return paths.flatMap((path, index): readonly Mistake[] => {
    try {
      readCertificate(path, folder);
      return [];
    } catch (error) {
      const { message, code } = error as NodeJS.ErrnoException;
      const fault = code === undefined ? message : `cannot be read: ${message}`;
      return [{ path: ['network', 'ca', index], message: fault }];
    }
  });
}

/** Each DuckDB engine needs its own file for snapshots. */
function checkSnapshots(file: FileOutline, folder: string): readonly Mistake[] {
  const takenBy = new Map<string, string>();
  return Object.keys(file.engines).flatMap((name): readonly Mistake[] => {
    const engine = engineIn(file, name);
    if (engine?.type !== 'duckdb' || engine.path === '') return [];
    const path = resolve(folder, engine.path);
    if (engine.schema !== '' && basename(path).split('.')[0] === engine.schema)
      return [
        {
          path: ['engines', name, 'schema'],
          message: 'is the name of its file too, which SQL confuses. Choose another',
        },
      ];
    const first = takenBy.get(path);
    if (first !== undefined)
      return [{ path: ['engines', name], message: `has the same file as ${first}. Set another path` }];
    takenBy.set(path, name);
    return [];
  });
}
