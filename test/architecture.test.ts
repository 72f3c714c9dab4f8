import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import t from 'tap';

const root = resolve(import.meta.dirname, '..');

interface Source {
  readonly path: string;
  readonly text: string;
  /** Paths of the project's files that it imports, and names of packages. */
  readonly imports: readonly string[];
}

/** Comments may speak of what code may not do. */
const withoutComments = (text: string) => text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|\s)\/\/.*$/gm, '$1');

function sourcesOf(folder: string): Source[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts') && !entry.name.endsWith('.d.ts'))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((path) => !/(^|\/)(dist|node_modules)\//.test(path))
    .map((path) => {
      const text = withoutComments(readFileSync(join(root, path), 'utf8'));
      const named = [...text.matchAll(/(?:from|import)\s*\(?\s*'([^']+)'/g)].map(([, name = '']) => name);
      const imports = named.map((name) =>
        name.startsWith('.') ? relative(root, resolve(root, dirname(path), name)) : name,
      );
      return { path, text, imports };
    });
}

const service = sourcesOf('src').filter(({ path }) => !path.startsWith('src/client/'));
const jobs = sourcesOf('jobs');
const receivers = sourcesOf('receivers');
const client = sourcesOf('src/client');
const inFolder = (folder: string) => (path: string) => path.startsWith(`${folder}/`);
const internal = /^(src|jobs|receivers|test|bench|examples|scripts)\//;

/** `file → import` for each import that breaks a rule. */
function breaches(sources: readonly Source[], isAllowed: (target: string, path: string) => boolean): string[] {
  return sources.flatMap(({ path, imports }) =>
    imports
      .filter((target) => internal.test(target) && !isAllowed(target, path))
      .map((target) => `${path} → ${target}`),
  );
}

/** `file` for each one, but the excepted, whose code matches. */
function uses(sources: readonly Source[], pattern: RegExp, isExcepted: (path: string) => boolean): string[] {
  return sources.filter(({ path, text }) => pattern.test(text) && !isExcepted(path)).map(({ path }) => path);
}

const leaves = [
  'clock',
  'lease-time',
  'retry',
  'errors',
  'failpoint',
  'log',
  'version',
  'destination',
  'message',
  'spelling',
  'timestamp',
  'ip',
  'raw-object',
];
const isLeaf = (path: string) => leaves.some((leaf) => path === `src/${leaf}.ts`);
const contract = inFolder('receivers');
/** What every stage with routes answers with. */
const httpEdge = ['src/http-errors.ts', 'src/http-schemas.ts'];
const stages: Record<string, (target: string) => boolean> = {
  'src/route': () => false,
  'src/accept.ts': (target) => target === 'src/route/route.ts' || target === 'src/store/port.ts' || contract(target),
  'src/deletion': (target) => ['src/store/port.ts', 'src/accept.ts', ...httpEdge].includes(target),
  'src/deliver': (target) => target === 'src/store/port.ts' || contract(target),
  'src/store': (target) => target === 'src/config/config.ts',
  'src/config': () => false,
};

t.test('there is something to look at', async (t) => {
  for (const sources of [service, jobs, receivers, client]) t.ok(sources.length > 5);
  t.ok(service.some(({ imports }) => imports.includes('src/store/port.ts')));
});

t.test('leaves import nothing but leaves', async (t) => {
  t.same(
    breaches(
      service.filter(({ path }) => isLeaf(path)),
      isLeaf,
    ),
    [],
  );
});

t.test('stages import leaves, ports and themselves, never each other', async (t) => {
  for (const [stage, isAllowed] of Object.entries(stages)) {
    const own = (path: string) => path === stage || path.startsWith(`${stage}/`);
    const found = breaches(
      service.filter(({ path }) => own(path)),
      (target) => {
        return own(target) || isLeaf(target) || isAllowed(target);
      },
    );
    t.same(found, [], stage);
  }
});

t.test('the store’s adapters know the port, and not each other', async (t) => {
  const adapters = ['src/store/sqlite', 'src/store/postgres'];
  for (const adapter of adapters) {
    const others = adapters.filter((other) => other !== adapter);
    const own = service.filter(({ path }) => inFolder(adapter)(path));
    t.same(
      breaches(own, (target) => !others.some((other) => inFolder(other)(target))),
      [],
    );
  }
  const outside = service.filter(({ path }) => !inFolder('src/store')(path) && !inFolder('src/cli')(path));
  t.same(
    breaches(outside, (target) => !adapters.some((adapter) => inFolder(adapter)(target))),
    [],
    'nobody but the command line reaches into an adapter',
  );
});

t.test('the packages stand alone: receivers and client import nothing outside themselves', async (t) => {
  t.same(breaches(receivers, inFolder('receivers')), []);
  t.same(breaches(client, inFolder('src/client')), []);
});

t.test('jobs get accept handed in, and never reach for delivery, collection or the app', async (t) => {
  const forbidden = ['src/accept.ts', 'src/app.ts'];
  const folders = [
    'src/deliver',
    'src/collect',
    'src/deletion',
    'src/admin',
    'src/cli',
    'src/route',
    'src/store/sqlite',
  ];
  const isForbidden = (target: string) => forbidden.includes(target) || folders.some((each) => inFolder(each)(target));
  const code = jobs.map((source) => ({
    ...source,
    // The type of what is handed in may be named.
    imports: source.imports.filter((target) => target !== 'src/accept.ts' || !isTypeImport(source.text, 'accept.ts')),
  }));
  t.same(
    breaches(code, (target) => !isForbidden(target)),
    [],
  );
});

t.test('only app.ts and the command line know everything', async (t) => {
  const isRoot = (path: string) => path === 'src/app.ts' || inFolder('src/cli')(path);
  const others = [...service, ...jobs].filter(({ path }) => !isRoot(path));
  t.same(
    breaches(others, (target) => !isRoot(target)),
    [],
  );
});

t.test('only clock.ts reads the time or makes random things', async (t) => {
  const pattern = /\bDate\.now\(|\bnew Date\(\)|\bperformance\.now\(|\bMath\.random\(|\brandomUUID\(|\brandomBytes\(/;
  t.same(
    uses([...service, ...jobs], pattern, (path) => path === 'src/clock.ts'),
    [],
  );
});

t.test('only config/ reads the environment', async (t) => {
  // The starter's files are another program's text.
  const isHome = (path: string) => inFolder('src/config')(path) || path === 'src/cli/starter-files.ts';
  t.same(uses([...service, ...jobs], /\bprocess\.env\b/, isHome), []);
});

t.test('SQL is written only in store/ and jobs/engines/', async (t) => {
  const sql =
    /\bSELECT\s+[\w*]|\bINSERT\s+(OR\s+\w+\s+)?INTO\s|\bUPDATE\s+\w+\s+SET\s|\bDELETE\s+FROM\s|\bCREATE\s+TABLE\s/;
  const isHome = (path: string) => inFolder('src/store')(path) || inFolder('jobs/engines')(path);
  t.same(uses([...service, ...jobs], sql, isHome), []);
});

t.test('SQLite is opened in store/ only', async (t) => {
  t.same(uses([...service, ...jobs], /'node:sqlite'/, inFolder('src/store')), []);
});

function isTypeImport(text: string, file: string): boolean {
  return new RegExp(`import type [^;]*${file}'`).test(text);
}
