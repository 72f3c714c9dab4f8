import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import t from 'tap';
import { tablesOf } from '../jobs/engines/sql/tables.ts';

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

/** Files outside `src/kernel` that every part may use. */
const leaves = [
  'about',
  'concern',
  'destination',
  'duckdb',
  'membership-change',
  'message',
  'message-types',
  'definition/conditions',
  'definition/definition',
  'definition/log-views',
  'definition/operators',
  'definition/places',
  'definition/sentence',
  'definition/sequence',
];
/** The kinds are a part of the wire contract. */
const isLeaf = (path: string) =>
  path.startsWith('src/kernel/') || path === 'receivers/kinds.ts' || leaves.some((leaf) => path === `src/${leaf}.ts`);
const contract = inFolder('receivers');
/** Files that every stage with routes answers with. */
const httpEdge = ['body', 'errors', 'refusals', 'schemas'].map((name) => `src/http/${name}.ts`);
const stages: Record<string, (target: string) => boolean> = {
  'src/route': () => false,
  'src/accept.ts': (target) => target === 'src/route/route.ts' || target === 'src/store/port.ts' || contract(target),
  'src/collect': (target) => httpEdge.includes(target),
  'src/admin': (target) => ['src/store/port.ts', 'src/config/config.ts', 'jobs/index.ts', ...httpEdge].includes(target),
  'src/alerts': (target) => ['src/store/port.ts', 'src/config/config.ts', 'src/accept.ts'].includes(target),
  'src/deletion': (target) => ['src/store/port.ts', 'src/accept.ts', ...httpEdge].includes(target),
  'src/deliver': (target) => target === 'src/store/port.ts' || contract(target),
  'src/history': (target) => target === 'src/store/port.ts',
  'src/store': (target) => target === 'src/config/config.ts',
  'src/config': () => false,
  'src/events': (target) => inFolder('src/store')(target),
};

t.test('finds files to check', async (t) => {
  for (const sources of [service, jobs, receivers, client]) t.ok(sources.length > 5);
  t.ok(service.some(({ imports }) => imports.includes('src/store/port.ts')));
});

t.test('lets leaves import only leaves', async (t) => {
  t.same(
    breaches(
      service.filter(({ path }) => isLeaf(path)),
      isLeaf,
    ),
    [],
  );
});

t.test('lets stages import leaves, ports and themselves, never each other', async (t) => {
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

t.test('lets the store’s adapters import the port, and not each other', async (t) => {
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

t.test('reserves live state for live audiences: only app.ts passes its verbs to others', async (t) => {
  const homes = ['src/store', 'jobs/live', 'jobs/engines/live'];
  const isHome = (path: string) => homes.some((home) => inFolder(home)(path));
  t.same(
    breaches([...service, ...jobs], (target, path) => target !== 'src/store/live.ts' || isHome(path)),
    [],
  );
  t.same(
    uses([...service, ...jobs], /\bstore\.live\b/, (path) => isHome(path) || path === 'src/app.ts'),
    [],
  );
});

t.test('keeps the packages independent: receivers and client import nothing outside themselves', async (t) => {
  t.same(breaches(receivers, inFolder('receivers')), []);
  t.same(breaches(client, inFolder('src/client')), []);
});

t.test('passes accept to jobs, which never import delivery, collection or the app', async (t) => {
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

t.test('lets only app.ts and the command line import everything', async (t) => {
  const isRoot = (path: string) => path === 'src/app.ts' || inFolder('src/cli')(path);
  const others = [...service, ...jobs].filter(({ path }) => !isRoot(path));
  t.same(
    breaches(others, (target) => !isRoot(target)),
    [],
  );
});

/** Files that import each other, directly or over others, types included. */
function circles(sources: readonly Source[]): string[][] {
  const imports = new Map(sources.map((source) => [source.path, source.imports]));
  const reached = new Map<string, ReadonlySet<string>>();
  for (const { path } of sources) {
    const seen = new Set<string>();
    const ahead = [...(imports.get(path) ?? [])];
    for (let next = ahead.pop(); next !== undefined; next = ahead.pop()) {
      if (seen.has(next)) continue;
      seen.add(next);
      ahead.push(...(imports.get(next) ?? []));
    }
    reached.set(path, seen);
  }
  const inCircle = sources.map(({ path }) => path).filter((path) => reached.get(path)?.has(path));
  const groups = Map.groupBy(inCircle, (path) => inCircle.find((other) => isMutual(reached, path, other)) ?? path);
  return [...groups.values()];
}

function isMutual(reached: ReadonlyMap<string, ReadonlySet<string>>, one: string, other: string): boolean {
  return one === other || (reached.get(one)?.has(other) === true && reached.get(other)?.has(one) === true);
}

t.test('has no import cycles', async (t) => {
  t.same(circles([...service, ...jobs, ...receivers, ...client]), []);
  const [one, two] = ['a.ts', 'b.ts'].map((path, index, all) => ({
    path,
    text: '',
    imports: [all[1 - index] as string],
  }));
  t.same(circles([one, two] as Source[]), [['a.ts', 'b.ts']], 'one would be found');
});

/** Exports that other packages and programs may take, whether anyone here does or not. */
const PUBLISHED = ['engines', 'readers'].flatMap((part) => [`jobs/${part}/index.ts`, `jobs/${part}/contract/index.ts`]);
const EXPORT =
  /^export (?:declare )?(?:abstract )?(?:async )?(?:const|let|function\*?|class|interface|type|enum) (\w+)/gm;

const IMPORT =
  /(?:import|export)\s+(?:type\s+)?(?:\{(?<names>[^}]*)\}|\*(?:\s+as\s+(?<all>\w+))?)\s+from\s+'(?<from>\.[^']+)'|\{(?<later>[^}]*)\}\s*=\s*await import\(\s*'(?<lazily>\.[^']+)'/g;

/** Imports of a file from others: `file: name`, and `file: *` where it hands on all of it. */
function taken({ path, text }: Source): string[] {
  return [...text.matchAll(IMPORT)].flatMap(({ groups = {} }) => {
    const home = relative(root, resolve(root, dirname(path), groups['from'] ?? groups['lazily'] ?? ''));
    const listed = (groups['names'] ?? groups['later'] ?? '')
      .split(',')
      .flatMap((each) => /\w+(?=\s*(?: as |:|$))/.exec(each) ?? []);
    const all = groups['all'];
    const used =
      all === undefined ? [] : [...text.matchAll(new RegExp(`\\b${all}\\.(\\w+)`, 'g'))].map(([, name]) => name);
    const names = listed.length + used.length > 0 ? [...listed, ...used] : ['*'];
    return names.map((name) => `${home}: ${name}`);
  });
}

/** `file: name` of each export that no other file takes, from it or from one that hands it on. */
function unusedExports(sources: readonly Source[], users: readonly Source[]): string[] {
  const known = new Set(users.flatMap(taken));
  const handers = Map.groupBy(
    users.flatMap((user) =>
      taken(user)
        .filter((each) => each.endsWith(': *'))
        .map((each) => [each.slice(0, -3), user.path]),
    ),
    ([home]) => home,
  );
  const isUsed = (home: string, name: string): boolean =>
    known.has(`${home}: ${name}`) || (handers.get(home)?.some(([, by = '']) => isUsed(by, name)) ?? false);
  return sources.flatMap(({ path, text }) =>
    [...text.matchAll(EXPORT)]
      .map(([, name = '']) => name)
      .filter((name) => !isUsed(path, name))
      .map((name) => `${path}: ${name}`),
  );
}

t.test('exports nothing that no other file uses', async (t) => {
  const sources = [...service, ...jobs].filter(({ path }) => !PUBLISHED.includes(path));
  const users = [...service, ...jobs, ...receivers, ...client, ...['test', 'bench', 'examples'].flatMap(sourcesOf)];
  t.same(unusedExports(sources, users), []);
  const [made] = sources;
  if (!made) throw new Error('no sources');
  const strange = { ...made, text: `export const ${'nobody'}NamesThis = 1;\n` };
  t.same(unusedExports([strange], users), [`${made.path}: ${'nobody'}NamesThis`], 'one would be found');
});

const TYPE = /^(export )?(?:declare )?(?:abstract )?(?:class|interface|type|enum) (\w+)/gm;
/** Names that the packages publish to apps, of things that each of them has. */
const PUBLISHED_TYPES = ['AliasMessage', 'Client', 'Message'];

/** `name: files` of each type that is exported somewhere and declared in several files. */
function repeatedTypes(sources: readonly Source[]): string[] {
  const declared = sources.flatMap(({ path, text }) =>
    [...text.matchAll(TYPE)].map(([, exported, name = '']) => ({ path, name, isExported: exported !== undefined })),
  );
  return [...Map.groupBy(declared, ({ name }) => name)]
    .filter(([, all]) => all.some(({ isExported }) => isExported) && new Set(all.map(({ path }) => path)).size > 1)
    .map(([name, all]) => `${name}: ${all.map(({ path }) => path).join(', ')}`);
}

t.test('declares each exported type name once', async (t) => {
  const found = repeatedTypes([...service, ...jobs, ...receivers, ...client]);
  t.same(
    found.filter((each) => !PUBLISHED_TYPES.includes(each.slice(0, each.indexOf(':')))),
    [],
  );
  const [one, two] = ['export interface Row {}', 'type Row = 1;'].map((text, at) => ({
    path: `${at}.ts`,
    text,
    imports: [],
  }));
  t.same(repeatedTypes([one, two] as Source[]), ['Row: 0.ts, 1.ts'], 'one would be found');
});

t.test('reads the time and makes random values only in clock.ts', async (t) => {
  const pattern = /\bDate\.now\(|\bnew Date\(\)|\bperformance\.now\(|\bMath\.random\(|\brandomUUID\(|\brandomBytes\(/;
  t.same(
    uses([...service, ...jobs], pattern, (path) => path === 'src/kernel/clock.ts'),
    [],
  );
});

t.test('hides fields in one way: # in the packages that apps import, private elsewhere', async (t) => {
  const packages = [...receivers, ...client];
  const others = [...service, ...jobs, ...['test', 'bench', 'examples', 'scripts'].flatMap(sourcesOf)];
  t.same(
    uses(packages, /^\s+private\s/m, () => false),
    [],
  );
  t.same(
    uses(others, /\bthis\.#\w/, () => false),
    [],
  );
});

t.test('reads the environment only in config/', async (t) => {
  // The starter's files are another program's text.
  const isHome = (path: string) => inFolder('src/config')(path) || path === 'src/cli/starter-files.ts';
  t.same(uses([...service, ...jobs], /\bprocess\.env\b/, isHome), []);
});

t.test('writes SQL only in store/, jobs/engines/ and jobs/readers/', async (t) => {
  const sql =
    /\bSELECT\s+[\w*]|\bINSERT\s+(OR\s+\w+\s+)?INTO\s|\bUPDATE\s+\w+\s+SET\s|\bDELETE\s+FROM\s|\bCREATE\s+TABLE\s/;
  const homes = ['src/store', 'jobs/engines', 'jobs/readers'];
  const isHome = (path: string) => homes.some((home) => inFolder(home)(path));
  t.same(uses([...service, ...jobs], sql, isHome), []);
});

t.test('loads no package in the store’s thread, so that it starts quickly', async (t) => {
  const imports = new Map([...service].map((source) => [source.path, source]));
  const seen = new Set<string>();
  const ahead = ['src/store/sqlite/thread/thread.ts'];
  const packages: string[] = [];
  for (let path = ahead.pop(); path !== undefined; path = ahead.pop()) {
    if (seen.has(path)) continue;
    seen.add(path);
    const { text = '', imports: targets = [] } = imports.get(path) ?? {};
    for (const target of targets) {
      if (internal.test(target)) {
        if (!isTypeImport(text, target.slice(target.lastIndexOf('/') + 1))) ahead.push(target);
      } else if (/^@?\w/.test(target) && !target.startsWith('node:')) packages.push(`${path} → ${target}`);
    }
  }
  t.ok(seen.size > 20);
  t.same(packages, []);
});

t.test('opens SQLite only in store/ and the process that reads a file of SQLite', async (t) => {
  const isHome = (path: string) => inFolder('src/store')(path) || path === 'jobs/readers/sqlite-process.ts';
  t.same(uses([...service, ...jobs], /'node:sqlite'/, isHome), []);
});

t.test('imports zod as a namespace, so that bundlers drop its messages in other languages', async (t) => {
  const all = [...service, ...jobs, ...receivers];
  t.same(
    uses(all, /import [^*;]*from 'zod'|import\('zod'\)/, () => false),
    [],
  );
  t.ok(all.some(({ imports }) => imports.includes('zod')));
});

t.test('gives the tables of the store and of an engine in the same database different names', async (t) => {
  const schema = readFileSync(new URL('../src/store/postgres/migrations/001_initial.sql', import.meta.url), 'utf8');
  const ofStore = [...schema.matchAll(/CREATE TABLE rollcall\.(\w+)/g)].map(([, name = '']) => name);
  const ofEngines = Object.values<string | ((key: string) => string)>({ ...tablesOf({}) }).map((table) =>
    (typeof table === 'string' ? table : table('')).replace('"rollcall".', '').replace(/_[0-9a-f]{16}$/, '_'),
  );
  t.ok(ofStore.length > 20);
  t.ok(ofEngines.includes('history'));
  t.same(
    ofStore.filter((name) =>
      ofEngines.some((other) => (other.endsWith('_') ? name.startsWith(other) : name === other)),
    ),
    [],
  );
});

function isTypeImport(text: string, file: string): boolean {
  return new RegExp(`import type [^;]*${file}'`).test(text);
}

t.test('keeps folders short enough to read at once', async (t) => {
  const folders = Map.groupBy(
    ['src', 'jobs', 'receivers'].flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => relative(root, entry.parentPath)),
    ),
    (folder) => folder,
  );
  // One file a command, and what is built or installed.
  const isExcepted = (folder: string) =>
    folder === 'src/cli/commands' || /(^|\/)(dist|node_modules)(\/|$)/.test(folder);
  const long = [...folders].filter(([folder, { length }]) => length > 30 && !isExcepted(folder));
  t.same(
    long.map(([folder, { length }]) => `${folder}: ${length}`),
    [],
  );
});
