import { join } from 'node:path';
import t, { type Test } from 'tap';
import { clean, root } from './helpers/clean.ts';
import { examplesOf } from './helpers/documents.ts';

const documents = [
  'README.md',
  'docs/receivers.md',
  'receivers/README.md',
  'docs/client.md',
  'src/client/README.md',
  'docs/engines.md',
];

/** Names that the examples take for given, one in each line, which goes where an example has its own. */
const given = `
import type { ReceiverStore } from '@rollcall/receivers';
import { Client } from '@rollcall/client';
declare const store: ReceiverStore;
declare function greet(user: string): void;
declare function miss(user: string): void;
declare function forget(user: string): void;
declare function saveTraits(user: string | undefined, traits: Record<string, unknown>): void;
declare function openYours(options?: unknown): Promise<import('rollcall/engine').Engine>;
`;

/** The names that a line declares or imports. */
function namesOf(line: string): string[] {
  const names = /^import (?:type )?(?:{ (.*) }|(\w+)) from/.exec(line);
  if (names !== null) return (names[1] ?? names[2] ?? '').split(', ').map((name) => name.replace('type ', ''));
  return /^(?:export )?(?:declare )?(?:const|let|function) (\w+)/.exec(line)?.slice(1) ?? [];
}

/** A module of an example: lines that say that they do not compile must not. */
function moduleOf(code: string): string {
  const own = new Set(code.split('\n').flatMap(namesOf));
  const rest = given.split('\n').flatMap((line) => {
    if (!line.startsWith('import')) return namesOf(line).some((name) => own.has(name)) ? [] : [line];
    const clause = /{ (.*) }/.exec(line)?.[1];
    if (clause === undefined) return namesOf(line).some((name) => own.has(name)) ? [] : [line];
    const kept = clause.split(', ').filter((name) => !own.has(name.replace('type ', '')));
    return kept.length === 0 ? [] : [line.replace(clause, kept.join(', '))];
  });
  const checked = code.replace(/^(?=.*\/\/ does not compile$)/gm, '// @ts-expect-error\n');
  return `${rest.join('\n')}\n${checked}\nexport {};\n`;
}

const examples = documents.flatMap((document) => examplesOf(document).map(({ code }) => moduleOf(code)));

const compilers = {
  'TypeScript 7': [`${root}node_modules/typescript/bin/tsc`, '-b', '--singleThreaded'],
  'TypeScript 5.9': [`${root}test/receivers/typescript-5.9/node_modules/typescript/bin/tsc`, '-b'],
};
const modules = { nodenext: 'nodenext', esnext: 'bundler', node16: 'node16' };

const commonJs = `
import { createReceiver } from '@rollcall/receivers/handle';
import kit = require('@rollcall/receivers');
const on: kit.Handlers = { track: ({ event }) => event.length };
createReceiver({ secret: 's', on, store: kit.memoryStore() }).close();
// @ts-expect-error a wrong name
createReceiver({ secret: 's', on: { trak() {} } });
`;

/**
 * The compiler's output about the examples, as modules and, for Node, one as CommonJS; `node16` has no other. They are built
 * together: what they share, such as the types of Node, is parsed once.
 */
async function compile(t: Test, compiler: readonly string[]): Promise<string> {
  const folder = t.testdir(
    Object.fromEntries(
      Object.entries(modules).map(([module, moduleResolution]) => [module, project(module, moduleResolution)]),
    ),
  );
  const folders = Object.keys(modules).map((module) => join(folder, module));
  const { stdout } = await clean(process.execPath, [...compiler, ...folders]).catch((error) => error);
  return stdout;
}

/** The files of one project. */
function project(module: string, moduleResolution: string): Record<string, string> {
  return {
    ...(module !== 'node16' && Object.fromEntries(examples.map((code, index) => [`example-${index}.ts`, code]))),
    ...(module !== 'esnext' && { 'app.cts': commonJs }),
    'tsconfig.json': JSON.stringify({
      compilerOptions: {
        strict: true,
        noEmit: true,
        module,
        moduleResolution,
        target: 'es2022',
        skipLibCheck: true,
        types: ['node'],
        typeRoots: [`${root}node_modules/@types`],
      },
      include: ['*.ts', '*.cts'],
    }),
  };
}

t.test('finds examples, and one that must not compile', async (t) => {
  t.ok(examples.length > 18);
  t.ok(examples.some((code) => code.includes('@ts-expect-error')));
});

for (const [name, compiler] of Object.entries(compilers)) {
  t.test(`${name}: compiles the examples of the documents in strict mode`, async (t) => {
    const said = await compile(t, compiler);
    for (const resolution of Object.values(modules)) t.test(resolution, async (t) => t.equal(said, ''));
  });
}
