import t from 'tap';
import { clean, root } from './helpers/clean.ts';

const head = `import Fastify from 'fastify';
import { createReceiver, onDelete, receiver } from '../../../receivers/index.ts';
import { createReceiver as createEdgeReceiver } from '../../../receivers/edge.ts';
import { lambdaHandler } from '../../../receivers/lambda.ts';
import { sqliteStore } from '../../../receivers/sqlite.ts';
const app = Fastify();
`;

/** Every line must fail to compile, each for itself: tsc reports an unused @ts-expect-error. */
const wrong = [
  "app.register(receiver, { path: '/', on: {} });",
  "app.register(receiver, { path: '/', secret: 's', on: { trak() {} } });",
  "app.register(receiver, { path: '/', secret: 's', on: { audience: { vips: { entred() {} } } } });",
  "app.register(receiver, { path: '/', secret: 's', on: { audience: { vips: { only: ['enter'] } } } });",
  "app.register(receiver, { path: '/', secret: 's', on: { audience: { vips: { entered: (m) => m.reasons } } } });",
  "app.register(receiver, { path: '/', secret: 's', on: { track: (m) => m.groupId } });",
  "app.register(receiver, { path: '/', secret: 's', on: { delete: (m) => m.version } });",
  "app.register(receiver, { path: '/', secret: 's', on: { track: { 'Order Completed': (m) => m.groupId } } });",
  "app.register(receiver, { path: '/', secret: 's', on: { track: { 'Order Completed': 'no function' } } });",
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
    audience: { vips: { entered: (m, { signal }) => signal.aborted, exited: (m) => m.userId, only: 'changes' } },
    trait: { ltv: { changed: (m) => m.reason === 'first_sync' && m.changedAt, only: ['entered', 'changed'] } },
    invalid: ({ reason }) => reason, error: (error, { late, stage }) => [error, late, stage],
  },
});
app.register(onDelete, { path: '/', secret: 's', handler: (m) => m.userId.length });
createReceiver({ secret: ['a', 'b'], on: {} });
createReceiver({ secret: 's', on: { track: { A: ({ event, properties }) => event + properties['a'], '*': (m) => m.event } } });
createReceiver({ secret: process.env['UNSET'], on: {} });

// As @types/aws-lambda has them.
type Names<Value> = { [name: string]: Value | undefined };
interface Rest {
  headers: Names<string>; multiValueHeaders: Names<string[]>; queryStringParameters: Names<string> | null;
  body: string | null; isBase64Encoded: boolean; requestContext: { accountId: string; httpMethod: string };
}
interface Balancer {
  headers?: Names<string> | undefined; multiValueHeaders?: Names<string[]> | undefined; body: string | null;
  isBase64Encoded: boolean; requestContext: { elb: { targetGroupArn: string } };
}
const handler = lambdaHandler(createEdgeReceiver({ secret: 's', on: {} }));
export const handlers: [(event: Rest, context: object) => Promise<unknown>, (event: Balancer) => Promise<unknown>] = [handler, handler];
`;

t.test('names the missing handlers, and not another way to answer', async (t) => {
  const dir = t.testdir({
    'uses.ts': `${head}createReceiver({ secret: 's' });\n`,
    'tsconfig.json': JSON.stringify({
      extends: `${root}tsconfig.json`,
      compilerOptions: { noUnusedLocals: false },
      include: ['uses.ts'],
    }),
  });
  const { stdout } = await clean(`${root}node_modules/.bin/tsc`, ['--singleThreaded', '-p', dir]).catch(
    (error) => error,
  );
  t.match(stdout, /error TS/);
  t.match(stdout, /on/);
  t.notMatch(stdout, /stored/);
});

t.test('compiles right uses, but not a wrong name or a missing secret', async (t) => {
  const lines = wrong.map((line) => `// @ts-expect-error must not compile\n${line}\n`);
  const dir = t.testdir({
    'uses.ts': `${head}${right}${lines.join('')}`,
    'tsconfig.json': JSON.stringify({
      extends: `${root}tsconfig.json`,
      compilerOptions: { noUnusedLocals: false, noUnusedParameters: false },
      include: ['uses.ts'],
    }),
  });
  const result = await clean(`${root}node_modules/.bin/tsc`, ['--singleThreaded', '-p', dir, '--listFiles']).catch(
    (error) => error,
  );
  const errors = (result.stdout as string).split('\n').filter((line) => line.includes('error TS'));
  t.same(errors, []);
  t.match(result.stdout, 'uses.ts');
});
