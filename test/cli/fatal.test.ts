import { readFile, writeFile } from 'node:fs/promises';
import t, { type Test } from 'tap';
import { Ledger, SECRET } from '../crash/ledger.ts';
import { launch as launchProgram, logged, track } from '../helpers/program.ts';
import { workspace } from './helpers.ts';

function launch(t: Test, args: readonly string[], fault: string) {
  const program = launchProgram(args, fault);
  t.teardown(() => program.child.kill('SIGKILL'));
  return program;
}

for (const [fault, why] of [
  ['memory', /memory/],
  ['throw', /a fault that a test asked for/],
] as const) {
  t.test(
    `the store's thread dies (${fault}): the process ends with an error, and a restart loses nothing`,
    async (t) => {
      const ledger = new Ledger(false);
      const port = await ledger.listen();
      t.teardown(() => ledger.close());
      const { config } = await workspace(t, `http://127.0.0.1:${port}`, 'log: { level: info }\n');
      await writeFile(config, (await readFile(config, 'utf8')).replace('s3cret', SECRET));
      const broken = launch(t, ['start', '-c', config], `${fault} accept 30`);
      const address = (await broken.address) ?? '';
      const acknowledged: string[] = [];
      const statuses = new Set<number | null>();
      for (let sent = 0; sent < 1_000 && !statuses.has(null); sent += 1) {
        const status = await track(address, 'personas-key', `m${sent}`);
        statuses.add(status);
        if (status === 200) acknowledged.push(`m${sent}`);
      }
      t.ok(acknowledged.length >= 25, `${acknowledged.length} acknowledged`);
      t.ok(
        [...statuses].every((status) => [200, 503, null].includes(status)),
        [...statuses].join(),
      );
      const ended = await broken.ended;
      t.same([ended.code, ended.signal], [1, null]);
      const fatal = logged(ended).filter(({ level }) => level === 60);
      t.match(fatal, [{ code: 'store_failed', msg: why }], 'one clear line with its code');
      t.match(ended.stderr, /^store_failed: The store's thread ended/m);

      const whole = launch(t, ['start', '-c', config], '');
      const again = (await whole.address) ?? '';
      t.equal(await track(again, 'personas-key', 'last'), 200);
      while (![...acknowledged, 'last'].every((id) => ledger.messages.has(id))) await ledger.accepted(1);
      t.equal(ledger.unverified, 0);
    },
  );
}

t.test('exits with 1 and says why if the store dies', async (t) => {
  const { config } = await workspace(t, 'http://127.0.0.1:9');
  const sync = launch(t, ['sync', '--once', '-c', config], 'throw accept 1');
  const { code, stderr } = await sync.ended;
  t.equal(code, 1);
  t.match(stderr, /store_failed/);
});

t.test('fails instead of hanging if the store dies while it is opened', async (t) => {
  const { config } = await workspace(t, 'http://127.0.0.1:9');
  const start = launch(t, ['start', '-c', config], 'memory migration 1');
  const { code, stderr } = await start.ended;
  t.equal(code, 1);
  t.match(stderr, /store_failed: The store's thread could not start/);
});
