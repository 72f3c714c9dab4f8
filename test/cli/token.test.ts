import { execFileSync } from 'node:child_process';
import { chmod, chown, copyFile, mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { freePort } from '../helpers/free-port.ts';
import { launch } from '../helpers/program.ts';
import { jsonLines, rollcall, start, workspace } from './helpers.ts';

const NOWHERE = 'http://127.0.0.1:9';
const status = async (url: string, token?: string) =>
  (await fetch(url, token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } })).status;

/** A service on a port that its configuration names, with the address and the link that it prints. */
async function serve(t: Test, config: string, ...args: readonly string[]) {
  const service = start(['serve', '-c', config, ...args]);
  const [, address = ''] = await service.stderr.match(/answers at (http:\/\/[\d.]+:\d+)/);
  t.teardown(() => service.stop());
  return { service, address };
}

async function onFixedPort(t: Test, more = '') {
  const { folder, config } = await workspace(t, NOWHERE, more);
  const text = await readFile(config, 'utf8');
  await writeFile(config, text.replace('port: 0', `port: ${await freePort()}`));
  return { folder, config, file: join(folder, 'rollcall.token') };
}

t.test('makes one token for all processes and configurations of a folder that start at once', async (t) => {
  const { folder, config } = await workspace(t, NOWHERE, 'store: "sqlite::memory:"\n');
  const other = join(folder, 'other.yaml');
  await copyFile(config, other);
  const programs = [config, other, config, other].map((file) => launch(['serve', '-c', file]));
  const addresses = await Promise.all(programs.map(({ address }) => address));
  const token = await readFile(join(folder, 'rollcall.token'), 'utf8');
  t.match(token, /^[0-9a-f]{64}$/);
  t.equal((await stat(join(folder, 'rollcall.token'))).mode & 0o777, 0o600);
  t.same(
    (await readdir(folder)).filter((name) => name.startsWith('rollcall.token')),
    ['rollcall.token'],
  );
  for (const address of addresses)
    for (const path of ['/api/v1/overview', '/metrics', '/regulations/x']) {
      t.equal(await status(address + path), 401, path);
      t.equal(await status(address + path, token), path === '/regulations/x' ? 404 : 200, path);
    }
  for (const { child, ended } of programs) {
    child.kill('SIGTERM');
    await ended;
  }
});

t.test('prints one link on stdout, and another on request, each of which signs in once', async (t) => {
  const { config, file } = await onFixedPort(t);
  t.match(await rollcall(['link', '-c', config]), { code: 2, stderr: /^no_admin_token: .*start the service/ });
  const { service, address } = await serve(t, config);
  const [, printed = ''] = /^Open (\S+) within ten minutes/.exec(service.stdout.text) ?? [];
  t.equal(service.stdout.text.split('\n').length, 2, 'one line');
  t.notMatch(service.stderr.text, '#token');
  const token = await readFile(file, 'utf8');
  t.notMatch(service.said(), token);
  const another = (await rollcall(['link', '-c', config])).stdout.trim();
  const [line] = jsonLines<{ link: string }>(await rollcall(['link', '-c', config, '--json']));
  for (const link of [printed, another, line?.link ?? '']) {
    const [page, code] = link.split('#token=');
    t.equal(page, `${address}/`);
    const signIn = async () => {
      const headers = { 'content-type': 'application/json' };
      const body = JSON.stringify({ token: code });
      return (await fetch(`${address}/api/v1/session`, { method: 'POST', headers, body })).status;
    };
    t.same([await signIn(), await signIn()], [200, 401]);
  }
  t.match(await rollcall(['config', 'reload', '-c', config]), { code: 0 }, 'commands use the file');
  const { folder } = await workspace(t, NOWHERE);
  t.match(await rollcall(['link', '-c', join(folder, 'rollcall.yaml')]), { code: 2, stderr: /listen\.port is 0/ });
});

t.test('takes the token file from an option or the configuration', async (t) => {
  const { folder, config, file } = await onFixedPort(t, 'admin: { tokenFile: sub/token }\n');
  await mkdir(join(folder, 'sub'));
  process.chdir(join(folder, 'sub'));
  const { service } = await serve(t, config, '--token-file', 'named');
  await service.stop();
  t.equal((await stat(join(folder, 'sub/named'))).size, 64, 'relative to the working directory');
  process.chdir('/');
  const second = await serve(t, config);
  t.equal((await stat(join(folder, 'sub/token'))).size, 64, "relative to the configuration's folder");
  await t.rejects(stat(file), { code: 'ENOENT' });
  const named = ['--token-file', join(folder, 'sub/named')];
  t.match(await rollcall(['config', 'reload', '-c', config, ...named]), { code: 2, stderr: /^unauthorized/ });
  t.match(await rollcall(['config', 'reload', '-c', config]), { code: 0 });
  t.match(await rollcall(['link', '-c', config, ...named]), { code: 0, stdout: /#token=/ });
  await second.service.stop();
});

t.test('refuses a token file that others may know, and ignores it once a token is set', async (t) => {
  const { folder, config, file } = await onFixedPort(t);
  const good = 'g'.repeat(64);
  const wrong: [string, () => Promise<unknown>, RegExp][] = [
    ['empty', () => writeFile(file, ''), /has fewer than 32 characters/],
    ['short', () => writeFile(file, good.slice(0, 31)), /has fewer than 32 characters/],
    ['spaces', () => writeFile(file, `${good} ${good}`), /not one line/],
    ['long', () => writeFile(file, 'g'.repeat(2_000)), /more than 1000 bytes/],
    ['group', () => writeFile(file, good).then(() => chmod(file, 0o640)), /read by other users/],
    ['world', () => writeFile(file, good).then(() => chmod(file, 0o604)), /read by other users/],
    ['link', () => writeFile(`${file}.real`, good, { mode: 0o600 }).then(() => symlink(`${file}.real`, file)), /link/],
    ['dangling', () => symlink(join(folder, 'nothing'), file), /link/],
    ['folder', () => mkdir(file), /not a regular file/],
    ['pipe', async () => execFileSync('mkfifo', ['-m', '600', file]), /not a regular file/],
    ...(process.geteuid?.() === 0
      ? [
          ['owner', () => writeFile(file, good).then(() => chown(file, 65_534, 65_534)), /another user/] as [
            string,
            () => Promise<unknown>,
            RegExp,
          ],
        ]
      : []),
  ];
  for (const [name, make, reason] of wrong) {
    execFileSync('rm', ['-rf', file]);
    const before = process.umask(0o077);
    await make();
    process.umask(before);
    for (const command of ['serve', 'link']) {
      const { code, stderr, stdout } = await rollcall([command, '-c', config]);
      t.match({ code, stdout }, { code: 2, stdout: '' }, `${command}: ${name}`);
      t.match(stderr, /^bad_token_file: .*mode 0600.*admin\.token/m, name);
      t.match(stderr, reason, name);
      t.notMatch(stderr, 'ggg');
    }
  }
  const set = 'the-token-that-is-set';
  await writeFile(config, `${await readFile(config, 'utf8')}admin: { token: ${set} }\n`);
  const { address } = await serve(t, config);
  t.equal(await status(`${address}/metrics`, set), 200);
});

t.test('runs without a token if none can be written, with the admin routes off', async (t) => {
  const { config } = await workspace(t, NOWHERE, 'admin: { tokenFile: nowhere/token }\n');
  const { service, address } = await serve(t, config);
  t.equal(service.stdout.text, '', 'no link');
  t.match(service.stderr.text, /"code":"no_admin_token".*Set admin\.token, or .*admin\.tokenFile or --token-file/);
  for (const path of ['/api/v1/overview', '/api/v1/session', '/metrics', '/regulations/x']) {
    const answer = await fetch(address + path, { headers: { authorization: 'Bearer any' } });
    t.match([answer.status, await answer.json()], [503, { code: 'no_admin_token' }], path);
  }
  for (const path of ['/healthz', '/readyz', '/']) t.equal(await status(address + path), 200, path);
  const body = JSON.stringify({ userId: 'u', event: 'e', writeKey: 'personas-key' });
  t.equal((await fetch(`${address}/v1/track`, { method: 'POST', body })).status, 200);
});

t.test('opens only the metrics on request', async (t) => {
  const { config } = await workspace(t, NOWHERE, 'admin: { openMetrics: true }\n');
  const { address } = await serve(t, config);
  t.equal(await status(`${address}/metrics`), 200);
  t.equal(await status(`${address}/api/v1/overview`), 401);
});
