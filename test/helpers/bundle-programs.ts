import { readFile, rm } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type BuildOptions, build, type Plugin } from 'esbuild';
import { PROGRAMS, THREADS } from './programs.ts';

/*
 * Writes each program into a folder, as one file and those that it shares with others, from sources and packages: two thirds of
 * the time in which a process starts goes into finding a thousand modules.
 */
const [folder = ''] = process.argv.slice(2);
const ROOT = resolve(import.meta.dirname, '../..');
const ENTRIES: ReadonlySet<string> = new Set(PROGRAMS.map((path) => resolve(ROOT, path)));
const BUNDLED_THREADS = resolve(import.meta.dirname, 'bundled-threads.ts');
/** Packages that look for files of their own beside them, or that are no JavaScript. */
const ALONE = ['@duckdb/*', '@fastify/swagger-ui', 'node-cron', 'pg-native', 'pino', 'pino-pretty'];

/** Migrations, pages and threads are found beside the sources. */
const inPlace: Plugin = {
  name: 'in place',
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, async ({ path }) => ({
      contents: (await readFile(path, 'utf8'))
        .replaceAll(/\bimport\.meta\.url\b/g, () => JSON.stringify(pathToFileURL(path).href))
        .replaceAll(/\bimport\.meta\.dirname\b/g, () => JSON.stringify(dirname(path)))
        .concat(ENTRIES.has(path) ? `import ${JSON.stringify(BUNDLED_THREADS)};` : ''),
      loader: 'ts',
    }));
  },
};

// No file of what stood here before.
await rm(folder, { recursive: true, force: true });
const common: BuildOptions = {
  absWorkingDir: ROOT,
  outdir: resolve(folder),
  outbase: ROOT,
  outExtension: { '.js': '.mjs' },
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node22',
  external: ALONE,
  plugins: [inPlace],
  banner: {
    js: "import { createRequire as requireFor } from 'node:module'; const require = requireFor(import.meta.url);",
  },
  logLevel: 'warning',
};
await build({ ...common, entryPoints: [...PROGRAMS], splitting: true });
await build({ ...common, entryPoints: [...THREADS] });
