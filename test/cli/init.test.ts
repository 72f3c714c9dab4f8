// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables of the configuration file
import { execFileSync, spawn } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import t, { type Test } from 'tap';
import { freePort } from '../helpers/free-port.ts';
import { jsonLines, rollcall, start } from './helpers.ts';

async function folder(t: Test): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'rollcall-init-'));
  const before = process.cwd();
  t.teardown(async () => {
    process.chdir(before);
    await rm(path, { recursive: true, force: true });
  });
  return path;
}

t.test('makes a project that runs, whose app verifies the first members', async (t) => {
  const root = await folder(t);
  const project = join(root, 'shop');
  // Packages that npm would have installed there.
  await mkdir(project);
  await symlink(resolve(import.meta.dirname, '../../node_modules'), join(project, 'node_modules'));
  const { code, stdout } = await rollcall([
    'init',
    project,
    '--yes',
    '--json',
    '--receiver-port',
    `${await freePort()}`,
  ]);
  t.equal(code, 0);
  t.match(jsonLines({ stdout }), [{ folder: project, files: ['.gitignore', '.env', 'orders.csv'] }]);
  t.equal((await stat(join(project, '.env'))).mode & 0o077, 0, 'secrets are for nobody else');
  const ignored = (await readFile(join(project, '.gitignore'), 'utf8')).split('\n');
  for (const file of ['.env', 'rollcall.token']) t.ok(ignored.includes(file), file);
  t.match(await readFile(join(project, '.env'), 'utf8'), /^ADMIN_TOKEN=\S{32,}$/m);

  const { scripts } = JSON.parse(await readFile(join(project, 'receiver/package.json'), 'utf8'));
  const [, ...args] = String(scripts.start).split(' ');
  const env = { ...process.env, NODE_OPTIONS: '' };
  const app = spawn(process.execPath, args, {
    cwd: join(project, 'receiver'),
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => app.kill('SIGKILL'));
  const lines = createInterface({ input: app.stdout })[Symbol.asyncIterator]();
  t.match((await lines.next()).value, /^Waiting for webhooks at /);

  const config = join(project, 'rollcall.yaml');
  t.equal((await rollcall(['config', 'check', '-c', config])).code, 0);
  const synced = await rollcall(['sync', '--once', '-c', config]);
  t.equal(synced.code, 0, synced.stderr);
  const said = [await lines.next(), await lines.next(), await lines.next()].map(({ value }) => value).toSorted();
  t.same(said, ['ada entered big_spenders', 'cyd entered big_spenders', 'eve entered big_spenders']);
});

t.test('overwrites nothing, and refuses a second project', async (t) => {
  const root = await folder(t);
  await writeFile(join(root, 'orders.csv'), 'mine');
  await writeFile(join(root, '.gitignore'), '.env\ndist');
  const first = await rollcall(['init', root, '--no-receiver', '--json']);
  t.match(jsonLines(first), [{ files: ['.gitignore', '.env', 'rollcall.schema.json', 'rollcall.yaml'] }]);
  t.equal(await readFile(join(root, 'orders.csv'), 'utf8'), 'mine');
  t.equal(
    await readFile(join(root, '.gitignore'), 'utf8'),
    '.env\ndist\nrollcall.token\nnode_modules/\nrollcall.db*\naudiences.duckdb*\nreceiver.db*\nevents/\n',
  );
  const secrets = await readFile(join(root, '.env'), 'utf8');
  const second = await rollcall(['init', root, '--yes']);
  t.equal(second.code, 2);
  t.match(second.stderr, /has a rollcall\.yaml already/);
  t.equal(await readFile(join(root, '.env'), 'utf8'), secrets);
});

t.test('refuses to replace a link named rollcall.yaml, even a dangling one', async (t) => {
  const root = await folder(t);
  await symlink(join(root, 'gone.yaml'), join(root, 'rollcall.yaml'));
  t.match(await rollcall(['init', root, '--yes']), { code: 2, stderr: /has a rollcall\.yaml already/ });
  t.same(await readdir(root), ['rollcall.yaml']);
});

t.test('leaves an .env in another encoding as it is', async (t) => {
  const root = await folder(t);
  const text = Buffer.from('\ufeffMINE=1\r\n', 'utf16le');
  await writeFile(join(root, '.env'), text);
  const { code, stderr } = await rollcall(['init', '--yes', root]);
  t.equal(code, 2);
  t.match(stderr, /\.env has a mistake:\s+is not UTF-8: save it in that encoding/);
  t.same(await readFile(join(root, '.env')), text);
});

t.test('adds the missing variables to an existing .env', async (t) => {
  const root = await folder(t);
  await writeFile(join(root, '.env'), 'MINE="1"\nCRM_SECRET=mine');
  t.match(jsonLines(await rollcall(['init', root, '--json'])), [{ files: ['.gitignore', '.env', 'orders.csv'] }]);
  const text = await readFile(join(root, '.env'), 'utf8');
  t.match(text, /^MINE="1"\nCRM_SECRET=mine\nADMIN_TOKEN=\w+\nSHOP_WRITE_KEY=\w+\nPERSONAS_WRITE_KEY=\w+\n$/);
  t.equal((await rollcall(['config', 'check', '-c', join(root, 'rollcall.yaml')])).code, 0);
});

t.test('fills an empty variable of an .env with a secret', async (t) => {
  const root = await folder(t);
  await writeFile(join(root, '.env'), 'CRM_SECRET=\nSHOP_WRITE_KEY=""\n');
  t.equal((await rollcall(['init', root, '--yes'])).code, 0);
  t.match(await rollcall(['config', 'check', '-c', join(root, 'rollcall.yaml')]), { code: 0, stderr: '' });
});

t.test('completes a project that could not be written at once', async (t) => {
  const root = await folder(t);
  await writeFile(join(root, 'receiver'), 'in its way');
  t.match(await rollcall(['init', root, '--yes']), { code: 2, stderr: /EEXIST/ });
  const secrets = await readFile(join(root, '.env'), 'utf8');
  await rm(join(root, 'receiver'));
  t.match(jsonLines(await rollcall(['init', root, '--json'])), [
    {
      files: [
        'receiver/receiver.ts',
        'receiver/package.json',
        'receiver/tsconfig.json',
        'rollcall.schema.json',
        'rollcall.yaml',
      ],
    },
  ]);
  t.equal(await readFile(join(root, '.env'), 'utf8'), secrets);
});

t.test('prints next steps that can be typed as they are', async (t) => {
  const root = join(await folder(t), "bob's shop");
  const { stdout } = await rollcall(['init', root, '--yes']);
  const [, go = ''] = /^ {2}(cd .*)$/m.exec(stdout) ?? [];
  t.equal(execFileSync('bash', ['-c', `${go} && pwd -P`], { encoding: 'utf8' }), `${await realpath(root)}\n`);
});

t.test('refuses an empty name, and uses this folder without a name', async (t) => {
  const root = await folder(t);
  process.chdir(root);
  t.match(await rollcall(['init', '', '--yes']), { code: 2, stderr: /'folder'\. It must not be empty\.$/m });
  t.same(await readdir(root), []);
  const { code, stdout } = await rollcall(['init', '--yes']);
  t.equal(code, 0);
  t.notMatch(stdout, /^ {2}cd/m);
  t.match(await rollcall(['init', '--yes']), { code: 2, stderr: `${await realpath(root)} has a rollcall.yaml` });
});

t.test('asks at a terminal, and follows the answers', async (t) => {
  const root = await folder(t);
  const { code, stdout } = await start(['init', root], { tty: true, answer: 'n\nn\n' }).finished;
  t.equal(code, 0);
  t.match(stdout, /write your first audience/);
  t.equal((await rollcall(['config', 'check', '-c', join(root, 'rollcall.yaml')])).code, 0);
  await t.rejects(stat(join(root, 'orders.csv')));
  await t.rejects(stat(join(root, 'receiver')));
});

t.test('asks again if the answer is neither yes nor no', async (t) => {
  const root = await folder(t);
  const { code, stderr } = await start(['init', root], { tty: true, answer: 'maybe\nYES\nn\n' }).finished;
  t.equal(code, 0);
  t.same(stderr.match(/Bring [^?]+\?/g), [
    'Bring sample orders and an audience over them?',
    'Bring sample orders and an audience over them?',
    'Bring an app that receives the webhooks?',
  ]);
  t.match(stderr, /Please answer y or n\.\n/);
  t.ok(await stat(join(root, 'orders.csv')));
  await t.rejects(stat(join(root, 'receiver')));
});

t.test('gives the service and the receiver app different ports', async (t) => {
  const root = await folder(t);
  const { code, stderr } = await rollcall(['init', root, '--yes', '--port', '3000']);
  t.equal(code, 2);
  t.match(stderr, /--port and --receiver-port are both 3000/);
  t.same(await readdir(root), []);
});

t.test('writes no files and prints no stack if interrupted at a question', async (t) => {
  const root = await folder(t);
  const pressed = await start(['init', root], { tty: true, answer: '\x03' }).finished;
  t.match(pressed, { code: 1, stdout: '', stderr: /: Interrupted\.\n$/ });
  const ended = await start(['init', root], { tty: true }).finished;
  t.match(ended, { code: 1, stdout: '', stderr: /: Interrupted\.\n$/ }, 'Ctrl-D');
  const halfway = await start(['init', root], { tty: true, answer: 'y\n' }).finished;
  t.match(halfway, { code: 1, stdout: '', stderr: /: Interrupted\.\n$/ }, 'Ctrl-D at the second one');
  const signalled = await start(['init', root], { tty: true }).stop();
  t.match(signalled, { code: 1, stdout: '', stderr: /Interrupted\. [^\n]+\n$/ });
  t.same(await readdir(root), []);
});

t.test('prefers variables of the environment to those of .env', async (t) => {
  const root = await folder(t);
  const config = 'serviceName: "${ROLLCALL_TEST_NAME}"\nsources: [{ id: a, writeKey: "${ROLLCALL_TEST_KEY:-k}" }]\n';
  await writeFile(join(root, 'rollcall.yaml'), config);
  const check = () => rollcall(['config', 'check', '-c', join(root, 'rollcall.yaml')]);
  t.match(await check(), { code: 2, stderr: /ROLLCALL_TEST_NAME, which is not set/ });
  await writeFile(join(root, '.env'), 'ROLLCALL_TEST_NAME=FromTheFile\n');
  t.equal((await check()).code, 0);
});
