import { cpSync, globSync, rmSync } from 'node:fs';
import { join } from 'node:path';

// Copies the files that the program reads at run time and tsc leaves out. The pages run in browsers as they are written.
const root = join(import.meta.dirname, '..');
const pages = 'src/admin/pages/{,views/}*.{html,js,css,svg}';
// Every file in that folder is served: none of an older build may stay there.
rmSync(join(root, 'dist/src/admin/pages'), { recursive: true, force: true });
for (const file of globSync(['src/store/*/migrations/*.sql', 'examples/shop/rollcall.yaml', pages], { cwd: root })) {
  cpSync(join(root, file), join(root, 'dist', file));
}
