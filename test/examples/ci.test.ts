import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import pg from 'pg';
import t, { type Test } from 'tap';
import { parse } from 'yaml';
import { startFastPostgres } from '../helpers/postgres.ts';
import { program } from '../helpers/programs.ts';

const run = promisify(execFile);
const EXAMPLES = fileURLToPath(new URL('../../examples/', import.meta.url));
const MAIN = program('src/cli/main.ts');
const postgres = await startFastPostgres();
t.teardown(() => postgres.stop());

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface Checkout {
  readonly folder: string;
  /** Runs a script as CI does. */
  script(text: string, env?: Readonly<Record<string, string>>): Promise<Ran>;
}

/** A clone of a repository with a branch that changes an audience, where the programs of the recipes are found. */
async function pullRequest(t: Test): Promise<Checkout> {
  const root = await mkdtemp(join(tmpdir(), 'rollcall-ci-'));
  t.teardown(() => rm(root, { recursive: true, force: true }));
  const [origin, folder, bin] = ['origin', 'work/clone', 'bin'].map((name) => join(root, name)) as [
    string,
    string,
    string,
  ];
  await mkdir(bin);
  await mkdir(join(root, 'work'));
  const executable = (name: string, text: string) =>
    writeFile(join(bin, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  // The package's command, as npx finds it once npm has installed it, and the services' clients, which keep the comment.
  await executable('npx', `shift\nexec "${process.execPath}" "${MAIN}" "$@"`);
  await executable('gh', `cp plan.md "${root}/comment.md"`);
  await executable('curl', `cp plan.md "${root}/comment.md"`);
  const script = async (text: string, env: Readonly<Record<string, string>> = {}): Promise<Ran> => {
    const given = { PATH: `${bin}:${process.env['PATH']}`, HOME: root, ...env };
    const options = { cwd: folder, env: given };
    return run('bash', ['-e', '-o', 'pipefail', '-c', text], options).then(
      (done) => ({ code: 0, ...done }),
      (error: Ran) => error,
    );
  };
  await cp(join(EXAMPLES, 'environments'), origin, { recursive: true });
  const git = (...args: readonly string[]) =>
    run('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args]);
  await git('init', '-q', '-b', 'main', origin);
  await git('-C', origin, 'add', '-A');
  await git('-C', origin, 'commit', '-qm', 'Begin');
  await git('-C', origin, 'checkout', '-qb', 'change');
  const sql = join(origin, 'audiences/big-spenders.sql');
  await writeFile(sql, (await readFile(sql, 'utf8')).replace('500', '50'));
  await git('-C', origin, 'commit', '-qam', 'Invite more people');
  await git('clone', '-q', '-b', 'change', origin, folder);
  return { folder, script };
}

interface Workflow {
  readonly jobs: Readonly<Record<string, { readonly steps: readonly { readonly run?: string }[] }>>;
}

type Pipeline = Readonly<Record<string, { readonly script?: readonly string[] }>>;

const recipe = async (name: string): Promise<unknown> => parse(await readFile(join(EXAMPLES, 'ci', name), 'utf8'));
/** npm installs the package from its registry, which a test does not. */
const github = async (job: string) =>
  ((await recipe('github.yml')) as Workflow).jobs[job]?.steps.flatMap(({ run = '' }) =>
    ['', 'npm ci'].includes(run) ? [] : run,
  ) ?? [];
const gitlab = async (job: string) => (((await recipe('gitlab.yml')) as Pipeline)[job]?.script ?? []).join('\n');

/** A warehouse with a hundred customers: u1 spent 10, u100 spent 1,000. */
async function warehouse(): Promise<string> {
  const url = await postgres.database();
  const client = new pg.Client(url);
  await client.connect();
  await client.query(
    "create table orders as select 'u' || i as customer_id, i * 10 as amount from generate_series(1, 100) i",
  );
  await client.end();
  return url;
}

for (const [name, steps, ref] of [
  ['GitHub Actions', github, { GITHUB_BASE_REF: 'main', GITHUB_STEP_SUMMARY: 'summary.md', PR: '1' }],
  ['GitLab CI', async (job: string) => [await gitlab(job)], { CI_MERGE_REQUEST_TARGET_BRANCH_NAME: 'main' }],
] as const) {
  t.test(`${name}: checks a change without secrets, and comments its plan`, async (t) => {
    const { folder, script } = await pullRequest(t);
    const said: Ran[] = [];
    for (const step of await steps('check')) {
      const ran = await script(step, ref);
      t.equal(ran.code, 0, `${step}: ${ran.stdout}${ran.stderr}`);
      said.push(ran);
    }
    t.ok(said.length > 0);
    const summary = await readFile(join(folder, 'summary.md'), 'utf8').catch(() => '');
    const all = said.map(({ stdout, stderr }) => stdout + stderr).join('') + summary;
    t.match(all, /big_spenders was not tried: it needs WAREHOUSE_URL/);
    t.match(all, /~ audiences: big_spenders changed\n {4}definition\n {6}- having .* > 500\n {6}\+ having .* > 50\n/);

    await writeFile(join(folder, 'audiences/growth.yaml'), 'audiences:\n  - name: Big Spenders\n    sql: select 1\n');
    const [check = ''] = await steps('check');
    t.match(await script(check, ref), {
      code: 2,
      stderr: /audiences\/growth\.yaml:2:5: audiences\[0\]\.source is required/,
    });

    await script('git checkout -q .');
    const env = { ...ref, WAREHOUSE_URL: await warehouse(), ROLLCALL_STORE: 'sqlite:./staging.db' };
    const comment = () => readFile(join(folder, '../../comment.md'), 'utf8');
    const plan = (await steps('plan')).join('\n');
    t.match(await script(plan, env), { code: 0 });
    t.match(await comment(), /\| <code>big&#95;spenders<\/code> \| 0 → 95 \| 95 \| 0 \| 0 \| 95 \| first sync \|\n/);

    t.match(await script('npx rollcall sync --once', env), { code: 4 }, 'nothing listens');
    await script("sed -i 's/> 50/> 900/' audiences/big-spenders.sql");
    t.match(await script(plan, env), { code: 3 });
    t.match(await comment(), /95 → 10 \| 0 \| 85 \| 0 \| 85 \| \*\*would be held\*\*: <code>.*maxExits/);
  });
}
