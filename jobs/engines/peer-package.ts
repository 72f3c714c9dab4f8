import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { RollcallError } from '../../src/kernel/errors.ts';

/**
 * Loads a package that only some engines need: from the configuration's folder, or else from Rollcall's own.
 *
 * @param check - throws if the package found there can't be used
 * @throws RollcallError `engine_unreachable` with the command that installs it
 */
export async function loadPeer(
  name: string,
  {
    folder,
    type,
    check = async () => {},
  }: { readonly folder: string; readonly type: string; readonly check?: (place: string) => Promise<void> },
): Promise<unknown> {
  for (const place of [join(folder, 'rollcall.yaml'), import.meta.url]) {
    try {
      const file = createRequire(place).resolve(name);
      await check(place);
      return await import(pathToFileURL(file).href);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== 'MODULE_NOT_FOUND') throw error;
    }
  }
  throw new RollcallError(
    'engine_unreachable',
    `An engine of type ${type} needs the package ${name}. Install it beside the configuration: npm install ${name}`,
  );
}
