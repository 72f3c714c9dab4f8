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
/** Packages that are no JavaScript, or are found by their names when they are needed. */
const ALONE = ['@duckdb/*', 'node-cron', 'pg-native', 'pino-pretty'];

/** Migrations, pages and threads are found beside the sources, and files of packages beside their modules. */
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
    onLoad({ filter: /\/node_modules\/(@fastify\/swagger-ui|pino|thread-stream)\/.*\.js$/ }, async ({ path }) => ({
      contents: (await readFile(path, 'utf8')).replaceAll(/\b__dirname\b/g, () => JSON.stringify(dirname(path))),
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
  // Each start reads all of it. Names stay, for whoever reads a stack.
  minifyWhitespace: true,
  lineLimit: 200,
  logLevel: 'warning',
};
await build({ ...common, entryPoints: [...PROGRAMS], splitting: true });
await build({ ...common, entryPoints: [...THREADS] });
