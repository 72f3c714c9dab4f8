import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { Receiver, status } from '../deliver/helpers/receiver.ts';
import { jsonLines, rollcall, start, workspace } from './helpers.ts';

/** A store with two deliveries that wait for `crm`, a file that has it, and another that has not. */
async function differing(t: Test, more = '') {
  const receiver = await Receiver.start(t, status(503));
  const { folder, config } = await workspace(t, new URL(receiver.url).origin, more);
  t.match(await rollcall(['sync', '--once', '-c', config]), { stdout: /2 waiting/ });
  const other = join(folder, 'other.yaml');
  await writeFile(other, (await readFile(config, 'utf8')).replace('name: crm', 'name: other'));
  const run = (...args: string[]) => rollcall([...args, '-c', other]);
  return { receiver, config, run };
}

const letters = async (run: (...args: string[]) => ReturnType<typeof rollcall>) =>
  jsonLines<{ destination: string; reason: string }>(await run('dead-letters', 'list', '--json'));

t.test('sync --once with another file drops no deliveries, and says what waits', async (t) => {
  const { config, run } = await differing(t, 'delivery: { removedAfter: 1ms }');
  await run('sync', '--once');
  t.same(await letters(run), []);
  t.match(jsonLines(await run('destinations', '--json')), [
    { destination: 'crm', state: 'not configured', processes: 0, pending: 2, dead: 0 },
    { destination: 'other', state: 'enabled', processes: 0 },
  ]);
  t.match(await run('doctor'), { stdout: /warning crm: 2 deliveries wait, and no process that runs knows it/ });
  t.match(await run('endpoints'), { stderr: /crm: 2 deliveries wait, and nobody serves it/ });
  t.match(await run('destinations'), { stdout: /^crm +not configured +0 +2 +0/m, stderr: /destinations drop crm/ });
  t.notMatch(await rollcall(['doctor', '-c', config]), { stdout: /warning crm/ }, 'the file knows it');
});

t.test('makes dead letters of a removed destination after removedAfter', async (t) => {
  const { run } = await differing(t, 'delivery: { removedAfter: 400ms }');
  const other = (await run('destinations', '--json')).stdout;
  t.match(other, /"removedAfter":400/);
  const service = start(['serve', '-c', 'other.yaml']);
  await service.stderr.match(/Made dead letters: no process has known/);
  await service.stop();
  t.match(await letters(run), [
    { destination: 'crm', reason: 'destination_removed' },
    { destination: 'crm', reason: 'destination_removed' },
  ]);
});

t.test('drops only deliveries of destinations that are no longer in use', async (t) => {
  const { receiver, config, run } = await differing(t);
  t.match(await run('destinations', 'drop', 'cmr', '--yes'), { code: 2, stderr: /There is no destination cmr/ });
  t.match(await rollcall(['destinations', 'drop', 'crm', '--yes', '-c', config]), {
    code: 2,
    stderr: /crm is in this configuration/,
  });
  const service = start(['serve', '-c', config]);
  await service.stderr.match(/answers at/);
  t.match(await run('destinations', 'drop', 'crm', '--yes'), { code: 2, stderr: /known to a process that runs/ });
  await service.stop();
  t.match(await run('destinations', 'drop', 'crm'), { code: 2, stderr: /add --yes/ });
  const asked = start(['destinations', 'drop', 'crm', '-c', 'other.yaml'], { tty: true, answer: 'n\n' });
  t.match(await asked.finished, { code: 1, stderr: /2 deliveries of crm would become dead letters/ });
  t.same(await letters(run), []);
  t.match(await start(['destinations', 'drop', 'crm', '-c', 'other.yaml'], { tty: true, answer: 'y\n' }).finished, {
    code: 0,
    stdout: /crm: 2 deliveries made dead letters/,
  });
  t.match(await letters(run), [{ reason: 'destination_removed' }, { reason: 'destination_removed' }]);
  t.match(jsonLines(await run('destinations', 'drop', 'crm', '--yes', '--json')), [{ destination: 'crm', dropped: 0 }]);
  t.match(jsonLines(await run('audit', '--action', 'destination.drop', '--json')), [
    { who: /^cli:/, target: 'crm', outcome: 'done' },
    { target: 'crm', outcome: 'done' },
  ]);
  receiver.answer = status(200);
  t.match(await rollcall(['dead-letters', 'replay', '--all', '-c', config]), { stdout: /2 dead letters replayed/ });
  const back = start(['serve', '-c', config]);
  const before = receiver.requests.length;
  await receiver.received(before + 2);
  t.match(await back.stop(), { code: 0 });
});
