import { join } from 'node:path';
import { createApp } from './app.ts';

const app = createApp({
  rollcall: 'http://127.0.0.1:8080',
  libraries: join(import.meta.dirname, 'node_modules'),
  onWebhook: (body) => console.log(JSON.stringify(body)),
});
const address = await app.listen({ port: 3000, host: '127.0.0.1' });
console.log(`pages: ${address}/segment and ${address}/rudder`);
