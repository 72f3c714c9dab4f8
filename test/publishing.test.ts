import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t from 'tap';
import { parse } from 'yaml';
import { complaint, FILES } from '../scripts/repository.ts';

const ROOT = resolve(import.meta.dirname, '..');
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const FOLDERS = ['', 'receivers', 'src/client'];
const manifests = FOLDERS.map((folder) => JSON.parse(read(join(folder, 'package.json'))));

/** What npm would publish, by folder. */
function packsOf(cwd: string) {
  const which = ['--include-workspace-root', ...FOLDERS.flatMap((folder) => (folder === '' ? [] : ['-w', folder]))];
  const args = ['pack', '--dry-run', '--ignore-scripts', '--json', ...which];
  const found: Packed[] = JSON.parse(execFileSync('npm', args, { cwd, encoding: 'utf8' }));
  return FOLDERS.map((folder, index) => {
    const pack = found.find(({ name }) => name === manifests[index].name);
    return { folder, packed: pack?.files.map(({ path }) => path) ?? [] };
  });
}

const packs = packsOf(ROOT);

interface Packed {
  readonly name: string;
  readonly files: readonly { readonly path: string }[];
}

const has = (packed: readonly string[], path: string) =>
  packed.some((each) => each === path || each.startsWith(`${path}/`));

t.test('names the same owner in the three packages, each with its licence and a README', async (t) => {
  const [first] = manifests;
  const home = first.repository.url.replace(/^git\+|\.git$/g, '');
  for (const [index, folder] of FOLDERS.entries()) {
    const { version, license, repository, homepage, bugs, publishConfig, engines } = manifests[index];
    t.same([version, license, engines], [first.version, 'MIT', first.engines], folder);
    t.same([repository.url, repository.directory ?? ''], [`git+${home}.git`, folder]);
    t.equal(bugs.url, `${home}/issues`);
    t.ok(homepage.startsWith(home));
    t.same(publishConfig, { access: 'public', provenance: true });
    t.equal(read(join(folder, 'LICENSE')), read('LICENSE'));
    t.ok(existsSync(join(ROOT, folder, 'README.md')));
  }
  t.same(JSON.parse(read('.changeset/config.json')).fixed, [manifests.map(({ name }) => name)]);
});

t.test('packs all files that messages and documents name, and the files to deploy', async (t) => {
  const { packed = [] } = packs.find(({ folder }) => folder === '') ?? {};
  const named = globSync('src/**/*.ts', { cwd: ROOT }).flatMap((file) =>
    [...read(file).matchAll(/\bdocs\/[\w/-]+\.md\b/g)].map(([path]) => path),
  );
  t.ok(named.length > 20);
  for (const path of [...named, 'deploy/systemd/rollcall.service']) t.ok(has(packed, path), path);
});

/** What may lie in a checkout, and nobody else may get. */
const PRIVATE =
  '.env rollcall.token tls.key tls.pem r.db r.db-wal a.duckdb a.duckdb.wal r.tgz data/orders.csv data/.env'.split(' ');

t.test('packs no secrets, keys and data that lie in its folders', (t) => {
  const copy = t.testdir();
  for (const { folder, packed } of packs) {
    for (const path of packed) cpSync(join(ROOT, folder, path), join(copy, folder, path));
  }
  for (const folder of globSync('{.,receivers,src/client}/{dist,deploy/**,docs,examples/*}/', { cwd: copy })) {
    mkdirSync(join(copy, folder, 'data'), { recursive: true });
    for (const path of PRIVATE) writeFileSync(join(copy, folder, path), '');
  }
  t.same(packsOf(copy), packs);
  t.end();
});

t.test('has a hash for each package of the lock files, and names no registry', (t) => {
  for (const file of ['package-lock.json', 'bench/package-lock.json']) {
    const packages = Object.entries<Locked>(JSON.parse(read(file)).packages);
    const fetched = packages.filter(([path, { link }]) => path.includes('node_modules/') && !link);
    t.ok(fetched.length > 100);
    const wrong = fetched.filter(([, { integrity, resolved }]) => !integrity?.startsWith('sha512-') || resolved);
    t.same(wrong, [], file);
  }
  t.end();
});

interface Locked {
  readonly link?: boolean;
  readonly integrity?: string;
  readonly resolved?: string;
}

t.test('resolves links and pictures of packed documents within the package', async (t) => {
  for (const { folder, packed } of packs) {
    t.ok(packed.length > 0);
    for (const page of packed.filter((path) => path.endsWith('.md'))) {
      for (const [, link = ''] of read(join(folder, page)).matchAll(/\]\((?!https?:|mailto:|#)([^)#\s]+)/g)) {
        const path = join(page, '..', link);
        t.ok(has(packed, path), `${join(folder, page)} links to ${path}`);
      }
    }
  }
});

t.test('exports what documents import, and has the commands that they run', async (t) => {
  const exported = manifests.flatMap(({ name, exports }) => Object.keys(exports).map((path) => join(name, path)));
  const commands = manifests.flatMap(({ bin = {} }) => Object.keys(bin));
  const pages = [
    'README.md',
    'receivers/README.md',
    'src/client/README.md',
    ...globSync('docs/**/*.md', { cwd: ROOT }),
  ];
  let seen = 0;
  for (const page of pages) {
    const text = read(page);
    for (const [, name = ''] of text.matchAll(/from '((?:@rollcall\/|rollcall\b)[^']*)'/g)) {
      seen += 1;
      t.ok(exported.includes(name), `${page} imports ${name}`);
    }
    for (const [, name = ''] of text.matchAll(/\bnpx (?:-p \S+ )?(?!@)(rollcall[\w-]*)/g)) {
      t.ok(commands.includes(name), `${page} runs ${name}`);
    }
  }
  t.ok(seen > 10);
});

t.test('has the scripts that the workflows run', async (t) => {
  const { scripts } = manifests[0];
  const workflows = globSync('.github/workflows/*.yml', { cwd: ROOT }).map(
    (path) => [path, parse(read(path))] as const,
  );
  t.equal(workflows.length, 2);
  for (const [path, { jobs }] of workflows) {
    for (const job of Object.values<{ steps: { run?: string; with?: object }[] }>(jobs)) {
      const lines = job.steps.flatMap(({ run = '', with: given = {} }) => [run, ...Object.values(given).map(String)]);
      for (const line of lines) {
        const [, script] = /^npm run ([\w:-]+)/.exec(line) ?? [];
        if (script !== undefined) t.ok(scripts[script], `${path}: ${line}`);
        if (line.startsWith('.ci/')) t.ok(existsSync(join(ROOT, line)), line);
      }
    }
  }
});

t.test('refuses a release from another repository than the packages name', async (t) => {
  const [, own] = /github\.com\/([\w.-]+\/[\w-]+)/.exec(manifests[0].repository.url) ?? [];
  t.equal(complaint(own), null);
  t.match(complaint('somebody/else'), /The packages name .+, and this is somebody\/else/);
  t.match(complaint(undefined), /GITHUB_REPOSITORY is not set/);
  t.match(manifests[0].scripts.release, /^node scripts\/repository\.ts --check && /);
});

t.test('names the repository in no file that the script would leave as it is', async (t) => {
  const [, own = ''] = /github\.com\/([\w.-]+\/[\w-]+)/.exec(manifests[0].repository.url) ?? [];
  const isOurs = (path: string) => !/(^|\/)(node_modules|dist|\.tap|\.git)(\/|$)/.test(path);
  const files = globSync(
    '{*,.*,.github/**/*,deploy/**/*,docs/**/*,receivers/*,src/**/*,examples/**/*}.{json,yml,yaml,md,ts}',
    {
      cwd: ROOT,
      exclude: (path) => !isOurs(path),
    },
  );
  const naming = files.filter((file) => isOurs(file) && read(file).includes(`github.com/${own}`));
  t.same(naming.toSorted(), FILES.toSorted());
});

t.test('raises and publishes the root package too, which Changesets would not know', (t) => {
  const { scripts, name, workspaces } = manifests[0];
  const [, version] = scripts['version-packages'].split(/^node scripts\/changesets\.ts (\w+) && /);
  t.equal(version, 'version');
  t.match(scripts.release, / && node scripts\/changesets\.ts publish$/);
  t.notMatch(JSON.stringify(scripts), 'npx --yes @changesets');
  t.notOk(workspaces.includes('.'));
  // Changesets is played here by a program that only shows what it sees.
  const folder = t.testdir({
    bin: {},
    scripts: { 'changesets.ts': read('scripts/changesets.ts') },
    'package.json': read('package.json'),
  });
  const seen = '#!/bin/sh\necho "$*" $(grep -A 1 workspaces package.json)\n';
  writeFileSync(join(folder, 'bin/npx'), seen, { mode: 0o755 });
  const env = { ...process.env, PATH: `${folder}/bin:${process.env['PATH']}` };
  const said = execFileSync(process.execPath, [join(folder, 'scripts/changesets.ts'), 'version'], {
    cwd: folder,
    env,
    encoding: 'utf8',
  });
  t.equal(said, '--yes @changesets/cli@2 version "workspaces": [ ".",\n');
  t.equal(readFileSync(join(folder, 'package.json'), 'utf8'), read('package.json'), `${name} is as it was`);
  // Ctrl-C at its questions.
  writeFileSync(join(folder, 'bin/npx'), '#!/bin/sh\nkill -INT $PPID $$\n', { mode: 0o755 });
  const { status } = spawnSync(process.execPath, [join(folder, 'scripts/changesets.ts'), 'add'], { cwd: folder, env });
  t.equal(status, 1);
  t.equal(readFileSync(join(folder, 'package.json'), 'utf8'), read('package.json'), 'also after Ctrl-C');
  const untilTold = '#!/bin/sh\ntrap "exit 3" TERM\nkill -TERM $PPID\nfor i in $(seq 300); do sleep 0.1; done\n';
  writeFileSync(join(folder, 'bin/npx'), untilTold, { mode: 0o755 });
  const told = spawnSync(process.execPath, [join(folder, 'scripts/changesets.ts'), 'add'], { cwd: folder, env });
  t.equal(told.status, 3, 'SIGTERM ends Changesets first');
  t.equal(readFileSync(join(folder, 'package.json'), 'utf8'), read('package.json'), 'also after SIGTERM');
  // The action reads one of each package.
  for (const each of FOLDERS) t.ok(existsSync(join(ROOT, each, 'CHANGELOG.md')), each);
  t.end();
});

t.test('raises the version in other files together with the packages', async (t) => {
  const script = read('scripts/deploy-version.ts');
  for (const file of ['deploy/kubernetes/kustomization.yaml', 'src/kernel/version.ts', 'src/client/version.ts']) {
    t.match(script, `'${file}'`);
  }
  t.match(manifests[0].scripts['version-packages'], 'node scripts/deploy-version.ts');
});
