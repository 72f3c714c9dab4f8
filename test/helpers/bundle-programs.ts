import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type BuildOptions, build, type Plugin } from 'esbuild';
import { PROGRAMS, THREADS } from './programs.ts';

/*
 * Writes the programs that tests start into one script, from sources and packages, and their threads into files: two thirds of
 * the time in which a process starts goes into finding a thousand modules.
 */
const [, , target] = process.argv;
if (target === undefined) throw new Error('Name the folder. What stands there is removed.');
const folder = resolve(target);
const ROOT = resolve(import.meta.dirname, '../..');
const ENTRIES: ReadonlySet<string> = new Set(PROGRAMS.map((path) => resolve(ROOT, path)));
const BUNDLED_THREADS = resolve(import.meta.dirname, 'bundled-threads.ts');
/** Packages that are no JavaScript, or are found by their names when they are needed. */
const ALONE = ['@duckdb/*', 'node-cron', 'pg-native', 'pino-pretty'];

/** Migrations, pages and threads are found beside the sources, and files of packages beside their modules. */
const inPlace: Plugin = {
  name: 'in place',
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, async ({ path }) => {
      const text = (await readFile(path, 'utf8'))
        .replaceAll(/\bimport\.meta\.url\b/g, () => JSON.stringify(pathToFileURL(path).href))
        .replaceAll(/\bimport\.meta\.dirname\b/g, () => JSON.stringify(dirname(path)));
      return { contents: ENTRIES.has(path) ? asFunction(text) : text, loader: 'ts' };
    });
    onLoad({ filter: /\/node_modules\/(@fastify\/swagger-ui|pino|thread-stream)\/.*\.js$/ }, async ({ path }) => ({
      contents: (await readFile(path, 'utf8')).replaceAll(/\b__dirname\b/g, () => JSON.stringify(dirname(path))),
    }));
  },
};

/** Programs wait at their top level, which scripts can't. One that imports another waits for its end, as it would without this. */
function asFunction(program: string): string {
  const imports: string[] = [];
  const rest = program
    .replace(/^#!.*/, '')
    .replaceAll(/^import [^;]*;$/gm, (statement) => {
      imports.push(statement);
      return '';
    })
    .replaceAll(/^await (import\(.*\));$/gm, 'await (await $1).ended;')
    .replaceAll(/^export /gm, '');
  imports.push(`import ${JSON.stringify(BUNDLED_THREADS)};`);
  return `${imports.join('\n')}\nexport const ended = (async () => {${rest}})();`;
}

// No file of what stood here before.
await rm(folder, { recursive: true, force: true });
const common: BuildOptions = {
  absWorkingDir: ROOT,
  bundle: true,
  platform: 'node',
  target: 'node22',
  external: ALONE,
  plugins: [inPlace],
  // Each start reads all of it. Names stay, for whoever reads a stack.
  minifyWhitespace: true,
  lineLimit: 200,
  // Comments may have other characters than ASCII, nothing else.
  legalComments: 'none',
  logLevel: 'warning',
};
const programs = PROGRAMS.map((path) => `'${path}': async () => (await import('./${path}')).ended`);
const { outputFiles } = await build({
  ...common,
  stdin: { contents: `module.exports = { ${programs.join(',\n')} };`, resolveDir: ROOT },
  format: 'cjs',
  // What only modules have, `runProgram` gives to the script.
  define: { 'import.meta.resolve': 'resolveImport' },
  write: false,
});
const script = outputFiles[0]?.text.replaceAll(/\bimport\(/g, 'importModule(') ?? '';
await mkdir(folder, { recursive: true });
await writeFile(join(folder, 'programs.cjs'), script);
await build({
  ...common,
  entryPoints: ['test/helpers/run-program.ts', ...THREADS],
  outdir: folder,
  outbase: ROOT,
  outExtension: { '.js': '.mjs' },
  format: 'esm',
  banner: {
    js: "import { createRequire as requireFor } from 'node:module'; const require = requireFor(import.meta.url);",
  },
});
const runner = JSON.stringify(pathToFileURL(join(folder, 'test/helpers/run-program.mjs')).href);
for (const path of PROGRAMS) {
  const file = join(folder, path.replace(/\.ts$/, '.mjs'));
  await mkdir(dirname(file), { recursive: true });
  await writeFile(
    file,
    `import { runProgram } from ${runner};\nawait runProgram(${JSON.stringify(folder)}, '${path}');\n`,
  );
}
// Only now: what it starts is one of them.
process.env['TEST_PROGRAMS'] = folder;
const { writeCode } = await import('./write-code.ts');
await writeCode();
