import t from 'tap';
import { createApp } from '../../examples/deletion-automation/app.ts';
import { fill, openShop } from '../../examples/deletion-automation/shop.ts';
import { createSender, webhook } from '../../receivers/testing.ts';
import { clean, root } from './helpers/clean.ts';
import { listen } from './helpers/hosts.ts';
import { secret } from './helpers/samples.ts';

t.test("deletes only the rows of the notice's user, and confirms after a failed try", async (t) => {
  const db = openShop(`${t.testdir()}/shop.db`);
  fill(db, 3);
  let outages = 1;
  const forgotten: string[] = [];
  const app = createApp({
    db,
    secret,
    outside: [
      async (userId) => {
        if (outages-- > 0) throw new Error('down');
        forgotten.push(userId);
      },
    ],
  });
  t.after(async () => {
    await app.close();
    db.close();
  });
  const sender = createSender({ url: `${await listen(app)}/deletions`, secret });
  const rows = (table: string) => db.prepare(`select count(*) as n from ${table}`).get()?.['n'];
  const record = async () => (await app.inject('/deletions')).json();

  const notice = webhook('delete', { userId: 'u2' });
  t.equal((await sender.send(notice)).status, 500);
  t.match(await record(), [{ user_id: 'u2', confirmed_at: null }]);
  t.equal(rows('customer'), 3);

  t.equal((await sender.send(notice)).status, 200);
  t.match(await record(), [{ user_id: 'u2', confirmed_at: /Z$/, rows_deleted: 4 }]);
  t.same([rows('customer'), rows('purchase'), rows('subscription')], [2, 4, 2]);
  t.same(forgotten, ['u2']);

  t.match(await sender.send(notice), { status: 200, body: /duplicate/ });
  t.equal((await sender.send(webhook('delete', { userId: 'nobody' }))).status, 200);
  t.equal((await sender.corrupt(webhook('delete', { userId: 'u1' }))).status, 401);
  t.same([rows('customer'), rows('purchase'), rows('subscription')], [2, 4, 2]);
});

t.test('prints in the demo what its README says', async (t) => {
  const { stdout } = await clean(process.execPath, [`${root}examples/deletion-automation/demo.ts`]);
  t.match(
    stdout.split('\n').slice(0, 5).join('\n'),
    `customers before: 3
first try:  500, customers: 3
newsletter tool: forgot u2
second try: 200, customers: 2
third time: {"received":true,"duplicate":true}`,
  );
});
