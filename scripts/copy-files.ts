import { cpSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { minified } from './minified.ts';

// Copies the files that the program reads at run time and tsc leaves out.
const root = join(import.meta.dirname, '..');
const pages = 'src/admin/pages/{,views/}*';
// Every file in that folder is served: none of an older build may stay there.
rmSync(join(root, 'dist/src/admin/pages'), { recursive: true, force: true });
const copied = ['src/store/*/migrations/*.sql', 'examples/shop/rollcall.yaml', `${pages}.{html,js,css,svg}`];
for (const file of globSync(copied, { cwd: root })) cpSync(join(root, file), join(root, 'dist', file));
for (const file of globSync(`${pages}.{js,css}`, { cwd: join(root, 'dist') })) {
  const path = join(root, 'dist', file);
  writeFileSync(path, minified(file, readFileSync(path, 'utf8')));
}
