import { cpSync, globSync } from 'node:fs';
import { join } from 'node:path';

// tsc copies no SQL.
const root = join(import.meta.dirname, '..');
for (const file of globSync('src/store/*/migrations/*.sql', { cwd: root })) {
  cpSync(join(root, file), join(root, 'dist', file));
}
