import { setTimeout as wait } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { startService } from '../collect/service.ts';
import { ROOT, run } from './worker.ts';

/** Before 2024-10-14 a request could not be woken by another one. */
const DATES = ['2024-01-01', '2026-06-01'];

/** A Worker whose client all requests share, beside a collection API. Each request tracks the user that its path names. */
async function share(t: Test, compatibilityDate: string, end: string) {
  const service = startService(t);
  const code = `
import { Client } from '${ROOT}/src/client/dist/web.js';
const client = new Client('WK_shop', { endpoint: '${await service.url()}', flushAfter: 500 });
export default {
  async fetch(request, env, context) {
    const { pathname } = new URL(request.url);
    if (pathname === '/queued') return new Response(String(client.queued));
    client.track({ userId: pathname.slice(1), event: 'Seen' });
    ${end}
    return new Response('ok');
  },
};
`;
  const { url, said } = await run(t, code, { compatibilityDate });
  const get = async (path: string) => (await fetch(url + path)).text();
  return {
    ...{ get, said, service },
    async settled() {
      while ((await get('queued')) !== '0') await wait(50);
    },
    users: () => service.accepted.flatMap((each) => each.messages.map(({ body }) => JSON.parse(String(body)).userId)),
  };
}

for (const date of DATES) {
  t.test(`as of ${date}, a client that all requests share delivers each message`, async (t) => {
    const { get, users, settled, said } = await share(t, date, 'context.waitUntil(client.flush());');
    const wanted = Array.from({ length: 200 }, (_, n) => `u${n}`);
    for (let from = 0; from < wanted.length; from += 20) {
      const answers = await Promise.all(wanted.slice(from, from + 20).map(get));
      t.same(new Set(answers), new Set(['ok']));
    }
    await settled();
    // A slow answer has them sent again, with the same ids.
    t.same([...new Set(users())].sort(), wanted.sort());
    t.equal(said.join(''), '');
  });

  t.test(`as of ${date}, what a request left unfinished is sent by the next that waits`, async (t) => {
    const { get, users, settled } = await share(
      t,
      date,
      "if (pathname === '/left') void client.flush(); else context.waitUntil(client.flush());",
    );
    await get('left');
    await get('next');
    await settled();
    t.same([...new Set(users())].sort(), ['left', 'next']);
  });

  t.test(`as of ${date}, a Worker that never flushes hears of it`, async (t) => {
    const { get, said } = await share(t, date, '');
    await get('u1');
    await wait(2_000);
    await get('u2');
    while (!said.join('').includes('ctx.waitUntil(client.flush())')) await wait(50);
  });
}
