import { execFile } from 'node:child_process';
import { copyFile, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { listen, orders, workspace } from '../cli/helpers.ts';
import { installedCommand } from '../helpers/installed-command.ts';

const run = promisify(execFile);
const FOLDER = fileURLToPath(new URL('../../examples/schedulers/', import.meta.url));

interface Failed {
  readonly code?: number | string;
  readonly stdout?: string;
  readonly stderr?: string;
}

/** Whether a program is here; what is not is said, and not tried. */
async function has(t: Test, program: string, ...args: readonly string[]): Promise<boolean> {
  const answer: Failed = await run(program, [...args]).catch((error) => error);
  if (answer.code !== 'ENOENT') return true;
  t.comment(`${program} is not on this machine`);
  return false;
}

/** The folders that deploy/README.md and its unit make for this user: the configuration's, and the one that it may write to. */
async function installation(user: string): Promise<{ home: string; state: string }> {
  const deploy = (path: string) => readFile(new URL(`../../deploy/${path}`, import.meta.url), 'utf8');
  const [, home = ''] = /^mkdir -p (\S+) && /m.exec(await deploy('README.md')) ?? [];
  const unit = await deploy('systemd/rollcall.service');
  if (!unit.includes(`\nUser=${user}\n`)) throw new Error(`the unit makes no folder for ${user}`);
  const [, state = ''] = /^StateDirectory=(\S+)$/m.exec(unit) ?? [];
  return { home, state: `/var/lib/${state}` };
}

t.test('the line for cron runs a sync, keeps its lines and says nothing while all is well', async (t) => {
  const listener = await listen(t);
  const { folder, config } = await workspace(t, listener.url);
  const bin = await installedCommand(folder);
  const cron = await readFile(join(FOLDER, 'rollcall.cron'), 'utf8');
  const line = cron.split('\n').find((each) => /^\d/.test(each)) ?? '';
  const [, user = '', command = ''] = /^(?:\S+ +){5} *(\S+) +(.*)$/.exec(line) ?? [];
  t.match(command, /^cd \/etc\/rollcall && rollcall sync /);
  const { home, state } = await installation(user);
  const places = command.match(/(?<=\s)\/\S+/g) ?? [];
  t.same(
    places.filter((path) => path !== home && !path.startsWith(`${state}/`)),
    [],
    'nothing else is there on the machine',
  );
  const here = command.replace(home, folder).replace(state, folder);
  const env = { ...process.env, NODE_OPTIONS: '', PATH: `${bin}:${process.env['PATH']}` };
  const { stdout, stderr } = await run('/bin/sh', ['-c', here], { env });
  t.same([stdout, stderr], ['', '']);
  const lines = (await readFile(join(folder, 'sync.jsonl'), 'utf8')).trim().split('\n');
  t.match(
    lines.map((each) => JSON.parse(each)),
    [{ key: 'big_spenders', state: 'done', sent: 2 }],
  );

  await t.test('and so does what Airflow and Dagster share, which tells held and failed runs apart', async (t) => {
    if (!(await has(t, 'python3', '--version'))) return;
    const script = join(FOLDER, 'rollcall_result.py');
    const python = (key: string, ...command: readonly string[]) =>
      run('python3', ['-B', script, key, ...command], { env: { ...env, ROLLCALL_CONFIG: config } }).catch(
        (error: Failed) => error,
      );
    t.same(JSON.parse((await python('big_spenders')).stdout ?? ''), { sent: 0, delivered: true });
    t.match(await python('big_spender'), {
      code: 1,
      stderr: /RollcallFailed: unknown_audience: .*Did you mean big_spenders/,
    });
    const line = {
      run: 'r',
      key: 'k',
      state: 'sending',
      phase: 'commit',
      code: 'engine_failed',
      reason: 'The disk is full.',
    };
    const interrupted = join(folder, 'interrupted');
    await writeFile(interrupted, `#!/bin/sh\necho '${JSON.stringify(line)}'\nexit 1\n`, { mode: 0o755 });
    t.match(await python('k', interrupted), { code: 1, stderr: /RollcallFailed: engine_failed: The disk is full/ });
    await orders(folder, { bob: 100 });
    t.match(await python('big_spenders'), {
      code: 1,
      stderr: /RollcallHeld: big_spenders: 2 of 2 users.* rollcall approve /,
    });
  });
  await listener.stop();
});

t.test('the files for Python compile', async (t) => {
  if (!(await has(t, 'python3', '--version'))) return;
  const copies = t.testdir({});
  for (const file of (await readdir(FOLDER)).filter((name) => name.endsWith('.py'))) {
    await copyFile(join(FOLDER, file), join(copies, file));
    await run('python3', ['-m', 'py_compile', join(copies, file)]);
    t.pass(file);
  }
});

t.test('systemd takes the units', async (t) => {
  if (!(await has(t, 'systemd-analyze', '--version'))) return;
  const units = ['rollcall-sync.service', 'rollcall-sync.timer'].map((unit) => join(FOLDER, unit));
  const { stderr } = await run('systemd-analyze', ['verify', '--man=no', ...units], {
    env: { ...process.env, SYSTEMD_UNIT_PATH: `${FOLDER}:` },
  });
  t.same(
    stderr.split('\n').filter((line) => line.includes('rollcall')),
    [],
  );
});
