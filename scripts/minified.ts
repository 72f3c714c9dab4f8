import { extname } from 'node:path';
import { type Loader, transformSync } from 'esbuild';

/** A script or style sheet of the pages as the package has it. */
export function minified(name: string, text: string): string {
  const loader = extname(name).slice(1) as Loader;
  return transformSync(text, { loader, minify: true, charset: 'utf8', target: 'es2024' }).code;
}
