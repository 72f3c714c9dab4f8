import { readFileSync } from 'node:fs';
import t from 'tap';
import { clean, root } from './helpers/clean.ts';

const head = `import Fastify from 'fastify';
import { createReceiver, onDelete, receiver } from '../../../receivers/index.ts';
import { sqliteStore } from '../../../receivers/sqlite.ts';
const app = Fastify();
`;

/** Every line must fail to compile, each for itself: tsc reports an unused @ts-expect-error. */
const wrong = [
  "app.register(receiver, { path: '/', on: {} });",
  "app.register(receiver, { path: '/', secret: undefined, on: {} });",
  "app.register(receiver, { path: '/', secret: 's', on: { trak() {} } });",
  "app.register(receiver, { path: '/', secret: 's', on: { audience: { vips: { entred() {} } } } });",
  "app.register(receiver, { path: '/', secret: 's', on: { track: (m) => m.groupId } });",
  "app.register(receiver, { path: '/', secret: 's', on: { delete: (m) => m.version } });",
  "app.register(receiver, { path: '/', secret: 's', on: { alias: (m) => m['Previous ID'] } });",
  "app.register(receiver, { path: '/', secret: 's', ack: 'stored', on: {} });",
  "app.register(onDelete, { path: '/', secret: 's', handler: (m) => m.traits });",
  "app.register(onDelete, { path: '/', handler() {} });",
  'createReceiver({ on: {} });',
  "createReceiver({ secret: 's', on: {}, acks: 'handled' });",
];

const right = `
app.register(receiver, {
  path: '/', secret: async ({ header }) => [header('x-tenant') ?? ''], ack: 'stored', store: sqliteStore(':memory:'),
  on: {
    identify: (m) => m.traits['plan'], track: (m) => m.event.length, page: (m) => m.properties.url?.length,
    screen: (m) => m.context.os?.version, group: (m) => m.groupId.length, alias: (m) => m.previousId + m.userId,
    delete: (m) => m.userId.length, any: (m) => m.type, unhandled: (m) => m.type,
    audience: { vips: { entered: (m, { signal }) => signal.aborted, exited: (m) => m.userId } },
    invalid: ({ reason }) => reason, error: (error, { late, stage }) => [error, late, stage],
  },
});
app.register(onDelete, { path: '/', secret: 's', handler: (m) => m.userId.length });
createReceiver({ secret: ['a', 'b'], on: {} });
`;

t.test('right uses compile; a wrong name or a missing secret does not', async (t) => {
  const lines = wrong.map((line) => `// @ts-expect-error must not compile\n${line}\n`);
  const dir = t.testdir({
    'uses.ts': `${head}${right}${lines.join('')}`,
    'tsconfig.json': JSON.stringify({
      extends: `${root}tsconfig.json`,
      compilerOptions: { noUnusedLocals: false, noUnusedParameters: false },
      include: ['uses.ts'],
    }),
  });
  const result = await clean(`${root}node_modules/.bin/tsc`, ['-p', dir, '--listFiles']).catch((error) => error);
  const errors = (result.stdout as string).split('\n').filter((line) => line.includes('error TS'));
  t.same(errors, []);
  t.match(result.stdout, 'uses.ts');
});

/** What the examples of the documents take for given. */
const given = `
import http from 'node:http';
import type { FastifyInstance } from 'fastify';
import {
  bodies, receiver as _receiver, signature, type Handlers, type Message, type UnknownMessage,
} from '@rollcall/receivers';
declare const app: FastifyInstance;
declare const secret: string, newSecret: string, oldSecret: string;
declare const on: Handlers;
declare const bytes: Buffer;
declare const request: http.IncomingMessage;
declare function greet(user: string): void;
declare function miss(user: string): void;
declare function forget(user: string): void;
declare function saveTraits(user: string | undefined, traits: Record<string, unknown>): void;
declare function count(event: string): void;
declare function test(name: string, run: () => Promise<void>): void;
declare function openFixture(): Promise<import('@rollcall/receivers/store-contract').StoreFixture>;
`;

t.test('the examples of the documents compile in strict mode, as modules of NodeNext and for bundlers', async (t) => {
  const examples = ['docs/receivers.md', 'receivers/README.md'].flatMap((document) => {
    const text = readFileSync(`${root}${document}`, 'utf8');
    return [...text.matchAll(/^```ts\n(.*?)^```/gms)].map(([, code = '']) => code);
  });
  t.ok(examples.length > 6);
  const files = examples.map((code, index) => {
    // What an example declares or imports itself is not given.
    const own = [...code.matchAll(/(?:const|import) (?:{ ([^}]*) }|(\w+))/g)].flatMap(([, names, name]) =>
      (names ?? name ?? '').split(/, */),
    );
    const lines = given.replace(
      'receiver as _receiver',
      own.includes('receiver') ? 'receiver as _receiver' : 'receiver',
    );
    const rest = lines.split('\n').filter((line) => !own.some((name) => line.startsWith(`declare const ${name}:`)));
    return [`example-${index}.ts`, `${rest.join('\n')}\n${code}`];
  });
  for (const [module, moduleResolution] of [
    ['nodenext', 'nodenext'],
    ['esnext', 'bundler'],
  ]) {
    const dir = t.testdir({
      ...Object.fromEntries(files),
      'tsconfig.json': JSON.stringify({
        compilerOptions: {
          strict: true,
          noEmit: true,
          module,
          moduleResolution,
          target: 'es2022',
          types: ['node'],
          typeRoots: [`${root}node_modules/@types`],
        },
        include: ['*.ts'],
      }),
      'package.json': '{"type":"module"}',
    });
    const { stdout } = await clean(`${root}node_modules/.bin/tsc`, ['-p', dir]).catch((error) => error);
    t.equal(stdout, '', `${module}`);
  }
});
