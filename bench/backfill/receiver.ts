import fastify from 'fastify';
import { receiver } from '../../receivers/index.ts';
import { SECRET } from './work.ts';

const app = fastify();
await app.register(receiver, {
  path: '/hooks',
  secret: SECRET,
  // It keeps none of them: what ten million ids take is not the kit's memory.
  on: { audience: { customers: { entered: () => {} } } },
});
await app.listen({ host: '127.0.0.1', port: 0 });
const address = app.server.address();
process.send?.(typeof address === 'object' ? address?.port : null);
