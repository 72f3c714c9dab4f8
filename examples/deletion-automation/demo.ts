/** Shows the automation at work: a notice that fails half-way, comes again, and is confirmed. */
import { createSender, webhook } from '@rollcall/receivers/testing';
import { createApp } from './app.ts';
import { fill, openShop } from './shop.ts';

const secret = 'a secret that both sides know';
const db = openShop(':memory:');
fill(db, 3);

let outages = 1;
/** Stands for the API of a newsletter tool, which is down at first. */
async function newsletterTool(userId: string): Promise<void> {
  if (outages-- > 0) throw new Error('the newsletter tool is down');
  console.log(`newsletter tool: forgot ${userId}`);
}

const app = createApp({ db, secret, outside: [newsletterTool] });
const sender = createSender({ url: `${await app.listen({ port: 0, host: '127.0.0.1' })}/deletions`, secret });
const count = () => db.prepare('select count(*) as n from customer').get()?.['n'];

console.log(`customers before: ${count()}`);
const notice = webhook('delete', { userId: 'u2' });
console.log(`first try:  ${(await sender.send(notice)).status}, customers: ${count()}`);
console.log(`second try: ${(await sender.send(notice)).status}, customers: ${count()}`);
console.log(`third time: ${(await sender.send(notice)).body}`);
console.log('confirmed:', (await app.inject('/deletions')).json()[0]);
await app.close();
db.close();
