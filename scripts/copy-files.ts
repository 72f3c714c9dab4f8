import { cpSync, globSync } from 'node:fs';
import { join } from 'node:path';

// Copies the files that the program reads at run time and tsc leaves out. The pages run in browsers as they are written.
const root = join(import.meta.dirname, '..');
const pages = 'src/admin/pages/*.{html,js,css,svg}';
for (const file of globSync(['src/store/*/migrations/*.sql', 'examples/shop/rollcall.yaml', pages], { cwd: root })) {
  cpSync(join(root, file), join(root, 'dist', file));
}
