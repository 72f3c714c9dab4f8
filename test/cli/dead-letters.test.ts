import t, { type Test } from 'tap';
import { verify } from '../../receivers/signature.ts';
import { Receiver, status } from '../deliver/helpers/receiver.ts';
import { until } from '../helpers/until.ts';
import { jsonLines, orders, rollcall, start, workspace } from './helpers.ts';

const PEOPLE = 1_000;

/** A store with a thousand dead membership changes, and who refused them. */
async function thousand(t: Test) {
  const receiver = await Receiver.start(t, status(400));
  const { folder, config } = await workspace(t, new URL(receiver.url).origin);
  await orders(folder, Object.fromEntries(Array.from({ length: PEOPLE }, (_, index) => [`u${index}`, 60])));
  const letters = (command: string, ...args: string[]) => rollcall(['dead-letters', command, '-c', config, ...args]);
  const sync = () => rollcall(['sync', '--once', '-c', config]);
  t.match(await sync(), { stdout: /1000 deliveries: 0 delivered, \d+ dead/ });
  // On a busy machine an attempt may time out, and is retried.
  await until(async () => {
    const isAllDead = jsonLines(await letters('list', '--json', '--limit', `${PEOPLE}`)).length === PEOPLE;
    if (!isAllDead) await sync();
    return isAllDead;
  });
  return { receiver, config, letters };
}

t.test('lists a thousand dead letters in pages, and replays them through a service', async (t) => {
  const { receiver, config, letters } = await thousand(t);
  const first = jsonLines<{ id: string }>(await letters('list', '--json', '--limit', '600'));
  const last = first.at(-1)?.id ?? '';
  const rest = await letters('list', '--json', '--limit', '600', '--after', last);
  t.equal(new Set([...first, ...jsonLines<{ id: string }>(rest)].map(({ id }) => id)).size, PEOPLE);
  t.match(await letters('list', '-n', '3'), { stderr: /There are more: --after \S+/ });

  t.match(await letters('drop', '7f3a-12', '--all'), { code: 2, stderr: /--all does not go with ids/ });
  t.match(await letters('replay', '--all', '--json'), {
    code: 0,
    stdout: `${JSON.stringify({ replayed: PEOPLE, superseded: 0, left: 0 })}\n`,
  });
  t.match(await rollcall(['endpoints', '-c', config]), { stdout: / 1000 +0$/m });
  receiver.answer = status(200);
  const refused = receiver.requests.length;
  const again = () => receiver.requests.slice(refused);
  const service = start(['serve', '-c', config]);
  await until(() => new Set(again().map(({ body }) => JSON.parse(`${body}`).userId)).size === PEOPLE);
  t.match(await service.stop(), { code: 0 });
  t.ok(again().every(({ body, headers }) => verify(body, String(headers['x-signature']), 's3cret').ok));
  t.match(await letters('replay', '--all'), { code: 0, stdout: /0 dead letters replayed/ });
});

t.test('an interrupted replay exits 1 and says how to continue', async (t) => {
  const { config, letters } = await thousand(t);
  const running = start(['dead-letters', 'replay', '--all', '--rate', '100', '-c', config], { tty: true });
  await running.stderr.match(/100\/100/);
  const stopped = await running.stop();
  t.match(stopped, { code: 1, stderr: /Interrupted.*--until \d{4}-/ });
  const replayed = Number(/^(\d+) dead letters replayed/m.exec(stopped.stdout)?.[1]);
  t.ok(replayed >= 100 && replayed < PEOPLE, `${replayed}`);
  t.match(await letters('replay', '--all'), { code: 0, stdout: `${PEOPLE - replayed} dead letters replayed` });
});

t.test('distinguishes an unknown name or id from nothing to do', async (t) => {
  const { config, letters } = await thousand(t);
  t.match(await letters('list', '--destination', 'cmr'), { code: 0, stderr: /has no destination cmr/ });
  t.match(await letters('replay', '--source', 'shop'), { code: 0, stderr: /has no source shop/ });
  t.match(await letters('drop', 'abc'), { code: 1, stdout: /0 dead letters/, stderr: /No such dead letter: abc/ });
  const [letter] = jsonLines<{ id: string }>(await letters('list', '--json', '-n', '1'));
  t.match(await letters('drop', 'abc', `${letter?.id}`), {
    code: 0,
    stdout: /1 dead letter dropped/,
    stderr: /No such dead letter: abc/,
  });
  t.match(await letters('drop', '--user', 'u7'), { code: 0, stdout: /1 dead letter dropped/ });
  t.match(await letters('drop', '--all', '--json'), { code: 0, stdout: `{"dropped":${PEOPLE - 2}}` });
  const attempts = await rollcall(['attempts', '--endpoint', 'nobody', '-c', config]);
  t.match(attempts, { code: 0, stderr: /has no endpoint nobody/ });
});

t.test('lists closed endpoints with the next step, and resumes them by name', async (t) => {
  const gone = await Receiver.start(t, (response) => void response.writeHead(410).end('We\nmoved.\u001b[2J'));
  const { folder, config } = await workspace(t, new URL(gone.url).origin);
  await orders(folder, { ada: 60 });
  await rollcall(['sync', '--once', '-c', config]);
  const list = await rollcall(['endpoints', '-c', config]);
  t.match(list, { stdout: /crm .* paused /, stderr: /rollcall endpoints resume/ });
  t.match(await rollcall(['attempts', '-c', config]), { stdout: /refused +410 .* We moved\. \[2J\n/ });
  const resume = (...names: string[]) => rollcall(['endpoints', 'resume', '-c', config, ...names]);
  t.match(await resume('crm', 'cmr'), { code: 2, stderr: /no endpoint or destination cmr/ });
  t.match(await resume('crm'), { code: 0, stdout: /was paused and is resumed/ });
  t.match(await resume('crm', '--json'), { code: 0, stdout: /"was":"open","resumed":false/ });
});
