import { readFileSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import type { Mistake } from './mistakes.ts';
import { engineIn, type FileOutline } from './outline.ts';

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
