import t from 'tap';
import { startApp, startInbox, writeConfig } from '../collect/running.ts';
import { track } from '../collect/service.ts';
import { AS_ADMIN } from '../helpers/admin.ts';
import { until } from '../helpers/until.ts';
import { jsonLines, rollcall } from './helpers.ts';

t.test('counts discarded messages, and shows them without ids', async (t) => {
  const inbox = await startInbox(t);
  const config = writeConfig(t, inbox, { shop: { connected: true }, web: { connected: true } });
  const app = await startApp(t, config);
  const post = (writeKey: string, batch: object[]) =>
    fetch(`${app.address}/v1/batch`, { method: 'POST', body: JSON.stringify({ batch, writeKey }) });
  t.match(await rollcall(['discards', '-c', config]), { code: 0, stdout: '', stderr: /Nothing was discarded/ });
  await post('WK_shop', [track, { type: 'track', userId: 'ada@example.com', messageId: 'm1' }]);
  await post('WK_web', [{ ...track, properties: 'oops' }, { type: 'identify' }]);
  await post('nobody', [track]);
  await until(async () => (await app.store.discards({ limit: 10 })).length >= 3);
  const lines = jsonLines(await rollcall(['discards', '--json', '-c', config]));
  t.match(lines, [
    { source: 'web', code: 'no_user_anon_id', at: /^20.*Z$/, message: '{"type":"identify"}' },
    { source: 'web', code: 'properties_not_object' },
    {
      source: 'shop',
      code: 'event_not_defined',
      message: /^{"type":"track","userId":"\[15 characters\]","messageId":"m1"/,
    },
  ]);
  t.match(await rollcall(['discards', '--source', 'shop', '-c', config]), {
    code: 0,
    stdout: /^at +source +code +message\n\S+Z +shop +event_not_defined +{"type":"track",[^\n]+\n$/,
  });
  const one = await rollcall(['discards', '-n', '1', '-c', config]);
  t.match(one, { stderr: /There are more/ });
  t.match(await rollcall(['discards', '--source', 'shpo', '-c', config]), {
    stderr: /The configuration has no source shpo/,
  });
  const metrics = await (await fetch(`${app.address}/metrics`, { headers: AS_ADMIN })).text();
  for (const labels of [
    'source="shop",code="event_not_defined"',
    'source="web",code="properties_not_object"',
    'source="",code="unknown_source"',
  ]) {
    t.match(metrics, `rollcall_discards_total{${labels}} 1`);
  }
  t.notMatch(metrics, 'nobody');
});
