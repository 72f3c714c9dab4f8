/**
 * Writes `dist/cjs` for `require`: the same modules as for `import`, and their types. TypeScript treats declarations as
 * CommonJS if the package.json above them says so.
 */
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const { exports } = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8'));
const dist = join(import.meta.dirname, 'dist');
const cjs = join(dist, 'cjs');

const declarations = readdirSync(dist, { recursive: true }).filter((name) => name.endsWith('.d.ts'));
for (const file of declarations.filter((name) => !name.startsWith('cjs'))) {
  mkdirSync(join(cjs, dirname(file)), { recursive: true });
  copyFileSync(join(dist, file), join(cjs, file));
}

// `rollcall types` extends a single interface, from a file whose module kind may differ from that of its users.
const options = readFileSync(join(cjs, 'options.d.ts'), 'utf8');
const register = /^export interface Register \{\s*\}$/m;
if (!register.test(options)) throw new Error('options.d.ts has no empty interface Register');
const shared =
  "import type { Register } from '../options.ts' with { 'resolution-mode': 'import' };\nexport type { Register };";
writeFileSync(join(cjs, 'options.d.ts'), options.replace(register, shared));

writeFileSync(join(cjs, 'package.json'), '{"type":"commonjs"}\n');
for (const { require: entry } of Object.values(exports)) {
  if (entry === undefined) continue;
  const file = entry.default.replace('./dist/cjs/', '');
  writeFileSync(join(cjs, file), `module.exports = require('../${file}');\n`);
}
