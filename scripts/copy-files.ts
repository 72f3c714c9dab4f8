import { cpSync, globSync } from 'node:fs';
import { join } from 'node:path';

// What the program reads at run time, and tsc does not copy.
const root = join(import.meta.dirname, '..');
for (const file of globSync(['src/store/*/migrations/*.sql', 'examples/shop/rollcall.yaml'], { cwd: root })) {
  cpSync(join(root, file), join(root, 'dist', file));
}
