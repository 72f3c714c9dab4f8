import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { webhookBody } from '../receivers/bodies.ts';
import { jsonLines, rollcall, start } from './cli/helpers.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const README = await readFile(join(ROOT, 'README.md'), 'utf8');

function blocks(language: string): readonly string[] {
  return [...README.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'gms'))].map(([, code = '']) => code);
}

/** The one block of a language that holds this text, with some of it replaced. */
function block(language: string, text: string, replacements: Readonly<Record<string, string>> = {}): string {
  const [code, ...others] = blocks(language).filter((candidate) => candidate.includes(text));
  if (code === undefined || others.length > 0) throw new Error(`README.md has not one ${language} block with ${text}`);
  return Object.entries(replacements).reduce((changed, [from, to]) => {
    if (!changed.includes(from)) throw new Error(`README.md has no ${from} there`);
    return changed.replaceAll(from, to);
  }, code);
}

const commands = blocks('console').flatMap((code) => [...code.matchAll(/^\$ (.*)$/gm)].map(([, line = '']) => line));

function node(file: string, env: Readonly<Record<string, string>> = {}): ChildProcess {
  const child = spawn(process.execPath, [file], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  return child;
}

t.test('runs the receiver, the configuration, the commands and the client as written', async (t) => {
  const folder = t.testdir({ 'orders.csv': 'customer_id,amount\nada,400\nada,200\nbob,20\n' });
  const secrets = { SHOP_WRITE_KEY: 'k', CRM_SECRET: 's' };
  Object.assign(process.env, secrets);

  const receiverFile = join(folder, 'receiver.ts');
  const listening = 'console.log(await app.listen({ port: 0 }))';
  await writeFile(receiverFile, block('ts', 'receiver', { 'await app.listen({ port: 3000 })': listening }));
  const receiver = node(receiverFile, secrets);
  const printed = createInterface({ input: receiver.stdout as NodeJS.ReadableStream })[Symbol.asyncIterator]();
  const { port } = new URL((await printed.next()).value ?? '');

  const config = block('yaml', 'audiences', { 'http://127.0.0.1:3000': `http://127.0.0.1:${port}` });
  await writeFile(join(folder, 'rollcall.yaml'), `listen: { port: 0 }\nlog: { level: debug }\n${config}`);
  process.chdir(folder);
  // A local installation has no other way to them.
  const typed = commands.filter((line) => /^npx rollcall .* -c /.test(line));
  t.equal(typed.length, 5);
  for (const command of typed) {
    const { code, stderr } = await rollcall(command.split(' ').slice(2));
    t.equal(code, 0, `${command} ${stderr}`);
  }
  t.equal((await printed.next()).value, 'ada entered');

  const service = start(['serve']);
  const [address] = await service.stderr.match(/http:\/\/127\.0\.0\.1:\d+/);
  const clientFile = join(folder, 'client.ts');
  await writeFile(clientFile, block('ts', 'Client', { WRITE_KEY: 'k', 'http://127.0.0.1:8080': address }));
  const [code] = await once(node(clientFile), 'exit');
  t.equal(code, 0);
  await service.stderr.match(/"type":"track".*"msg":"delivered"/);
  await service.stop();
  const attempts = jsonLines<{ type: string; outcome: string }>(
    await rollcall(['attempts', '--user', 'ada', '--json']),
  );
  t.match(
    attempts.find(({ type }) => type === 'track'),
    { outcome: 'success', status: 200 },
  );
});

t.test('shows a valid body', async (t) => {
  const body = JSON.parse(block('json', 'identify'));
  t.match(webhookBody.parse(body), body);
});

t.test('names scripts that exist', async (t) => {
  const { scripts } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'));
  const named = commands
    .flatMap((line) => line.split(' && '))
    .flatMap((command) => /^npm (?:run )?(\w+)/.exec(command)?.[1] ?? [])
    .filter((name) => !['ci', 'install'].includes(name));
  t.strictSame(named.toSorted(), ['build', 'check', 'lint', 'start', 'test']);
  for (const name of named) t.ok(scripts[name], name);
});

t.test('links files that exist, and is short', async (t) => {
  const links = [...README.matchAll(/\]\(([^)#:]+)\)/g)].map(([, path = '']) => path);
  t.ok(links.length > 5);
  for (const path of links) t.ok(existsSync(join(ROOT, path)), path);
  t.ok(README.trimEnd().split('\n').length <= 200);
});
