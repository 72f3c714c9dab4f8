import fastify from 'fastify';
import { receiver } from '../../receivers/index.ts';
import { SECRET } from './work.ts';

const members = new Set<string>();
const app = fastify();
await app.register(receiver, {
  path: '/hooks',
  secret: SECRET,
  on: { audience: { customers: { entered: ({ userId = '' }) => void members.add(userId) } } },
});
await app.listen({ host: '127.0.0.1', port: 0 });
const address = app.server.address();
process.send?.(typeof address === 'object' ? address?.port : null);
