/** The app with a database file, for Rollcall to talk to: `PORT`, `SECRET` and `DATABASE` come from the environment. */
import { createApp } from './app.ts';
import { fill, openShop } from './shop.ts';

const { PORT = '3000', SECRET = '', DATABASE = 'shop.db' } = process.env;
const db = openShop(DATABASE);
if (db.prepare('select 1 from customer').get() === undefined) fill(db, 3);
const app = createApp({ db, secret: SECRET, outside: [async (userId) => console.log(`forgetting ${userId}`)] });
console.log(`deletion notices: ${await app.listen({ port: Number(PORT), host: '127.0.0.1' })}/deletions`);
