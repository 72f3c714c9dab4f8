import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { filesOf, jsonLines, rollcall, workspace } from './helpers.ts';

/** Commands that look at what is in the store, or change it. */
const NEED_STORE: readonly string[] = [
  ...['audiences', 'audiences big_spenders', 'members big_spenders', 'runs', 'runs --held', 'why big_spenders ada'],
  ...['deletions', 'messages', 'dead-letters', 'discards --source personas', 'events', 'audit', 'alerts', 'attempts'],
  ...['endpoints', 'endpoints resume crm', 'destinations', 'destinations drop old', 'backup copy'],
  ...['approve r1', 'reject r1', 'retire big_spenders', 'resync big_spenders'],
  ...['resend 1-1', 'dead-letters replay --all', 'dead-letters drop --all'],
];

t.test('says that there is no store, without creating one', async (t) => {
  const { folder, config } = await workspace(t, 'http://127.0.0.1:9');
  for (const command of NEED_STORE) {
    const result = await rollcall([...command.split(' '), '--json', '-c', config]);
    t.equal(result.code, 1, command);
    t.match(jsonLines(result), [{ error: { code: 'store_missing' } }], command);
    t.match(result.stderr, `There is no store at ${join(folder, 'rollcall.db')}. rollcall start makes one`, command);
    t.same(await filesOf(folder), [], command);
  }
});

t.test('leaves an empty file as it is', async (t) => {
  const { folder, config } = await workspace(t, 'http://127.0.0.1:9');
  const store = join(folder, 'rollcall.db');
  writeFileSync(store, '');
  for (const command of ['runs', 'plan', 'doctor']) {
    const { code, stderr } = await rollcall([command, '-c', config]);
    t.equal(code, command === 'runs' ? 1 : 0, command);
    if (code === 1) t.match(stderr, `There is no store at ${store}`);
    t.same(await filesOf(folder), ['rollcall.db'], command);
    t.equal(statSync(store).size, 0, command);
  }
  writeFileSync(`${store}-id`, 'in use');
  t.match(await rollcall(['runs', '-c', config]), { code: 1, stderr: /^store_damaged: / });
});

t.test('runs commands that need no store without creating one', async (t) => {
  const { folder, config } = await workspace(t, 'http://127.0.0.1:9');
  for (const command of [['plan'], ['types'], ['doctor'], ['config', 'check']]) {
    t.match(await rollcall([...command, '-c', config]), { code: 0 }, command.join(' '));
    t.same(await filesOf(folder), [], command.join(' '));
  }
});

t.test('keeps orders that were given before the first start', async (t) => {
  const { config } = await workspace(t, 'http://127.0.0.1:9');
  t.match(await rollcall(['audiences', 'pause', 'big_spenders', '-c', config]), { code: 0 });
  t.match(jsonLines(await rollcall(['audiences', '--json', '-c', config])), [{ state: 'paused' }]);
});
