import { readFileSync, writeFileSync } from 'node:fs';
import t from 'tap';
import { Receiver, status } from '../deliver/helpers/receiver.ts';
import { jsonLines, orders, rollcall, workspace } from './helpers.ts';

interface Line {
  readonly id: string;
  readonly messageId: string;
  readonly userId: string;
  readonly destination: string;
  readonly state: string;
  readonly kept: boolean;
  readonly body: { readonly userId: string; readonly traits: object };
  readonly attempts: readonly { readonly outcome: string; readonly status: number }[];
}

t.test('finds a message and sends it again', async (t) => {
  const receiver = await Receiver.start(t, status(200));
  const { folder, config } = await workspace(t, new URL(receiver.url).origin);
  await orders(folder, { u1: 60, u2: 70 });
  t.match(await rollcall(['sync', '--once', '-c', config]), { code: 0, stdout: /2 delivered/ });
  const messages = (...args: string[]) => rollcall(['messages', '-c', config, ...args]);

  const [unkept] = jsonLines<Line>(await messages('--user', 'u1', '--json'));
  t.match(unkept, { userId: 'u1', state: 'delivered', kept: false, type: 'identify', event: null });
  t.match(await messages('--user', 'u1', '--body'), { code: 0, stdout: /delivered.*\n\n.*\nIts body is not kept\./s });
  const refused = await rollcall(['resend', `${unkept?.id}`, '-c', config]);
  t.match(refused, { code: 1, stderr: /No message .* is kept: .*messages\.keep/ });

  writeFileSync(config, `${readFileSync(config, 'utf8')}\nmessages: { keep: 1d }\n`);
  await orders(folder, { u1: 60, u2: 70, u3: 80 });
  await rollcall(['sync', '--once', '-c', config]);
  const [kept, ...others] = jsonLines<Line>(await messages('--user', 'u3', '--body', '--json'));
  t.same(others, []);
  t.match(kept, { kept: true, body: { userId: 'u3' }, attempts: [{ outcome: 'success', status: 200 }] });
  t.match(await messages('--type', 'identify', '-n', '1'), { stdout: /\bu3\b/, stderr: /There are more/ });
  t.match(await messages('--user', 'nobody'), { code: 0, stderr: /No messages match/ });
  t.match(await messages('--destination', 'cmr'), { stderr: /has no destination cmr/ });

  const before = receiver.requests.length;
  t.match(await rollcall(['resend', `${kept?.id}`, '--json', '-c', config]), {
    code: 0,
    stdout: `${JSON.stringify({ resent: 1, superseded: 0 })}\n`,
  });
  t.match(
    await rollcall([
      'resend',
      jsonLines<Line>(await messages('--state', 'waiting', '--json'))[0]?.id ?? '',
      '-c',
      config,
    ]),
    {
      code: 1,
      stderr: /is still on its way to/,
    },
  );
  await rollcall(['sync', '--once', '-c', config]);
  await receiver.received(before + 1);
  const again = receiver.requests.at(-1);
  t.match(JSON.parse(`${again?.body}`), { userId: 'u3' });
  t.not(again?.headers['idempotency-key'], kept?.id);
  t.equal(jsonLines<Line>(await messages('--user', 'u3', '--json')).length, 2);
  t.match(await rollcall(['audit', '--json', '-c', config]), {
    stdout: /"action":"messages\.resend","target":"1 by id"/,
  });
});
