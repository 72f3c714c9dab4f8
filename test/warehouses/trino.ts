import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { openTrino } from '../../jobs/readers/trino.ts';
import { EVENTS_VIEW, statementOf } from '../events/helpers/documented.ts';
import type { AudienceDialect, YearAudience } from '../events/helpers/year.ts';
import { freePort } from '../helpers/free-port.ts';
import { KEY_ID, type S3Server, SECRET } from '../helpers/s3.ts';
import { until } from '../helpers/until.ts';
import { readAll } from '../jobs/readers/rows.ts';

const run = promisify(execFile);

/** The version of test/warehouses/trino/pom.xml. */
export const TRINO_VERSION = '483';
const HERE = import.meta.dirname;
const INSTALLED = join(HERE, '../../node_modules/.cache', `trino-${TRINO_VERSION}`);
const JAVA = ['/usr/lib/jvm/temurin-25-jdk-amd64', process.env['JAVA_HOME'] ?? ''].find((home) =>
  existsSync(join(home, 'bin/java')),
);
const GET = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies';
/** Without the distribution's own packaging, the plugins' jars don't say what they contain. */
const PLUGINS = { memory: 'io.trino.plugin.memory.MemoryPlugin', hive: 'io.trino.plugin.hive.HivePlugin' };

/** Fetches Trino's jars from Maven, once. Resolves to the reason why it can't; false if all is there. */
export async function installTrino(): Promise<string | false> {
  if (!JAVA) return 'Trino needs Java 25, which is not here: set JAVA_HOME';
  if (existsSync(INSTALLED)) return false;
  const lib = `${INSTALLED}.part`;
  await rm(lib, { recursive: true, force: true });
  const options = [
    '-B',
    '-q',
    '-ntp',
    '-f',
    join(HERE, 'trino/pom.xml'),
    GET,
    '-DincludeScope=runtime',
    `-Dlib=${lib}`,
  ];
  try {
    await run('mvn', options, { env: { ...process.env, JAVA_HOME: JAVA }, maxBuffer: 1e8 });
  } catch (error) {
    return `Trino ${TRINO_VERSION} could not be fetched from Maven: ${(error as Error).message.slice(0, 300)}`;
  }
  for (const [name, plugin] of Object.entries(PLUGINS)) {
    const services = join(lib, `services-${name}/META-INF/services`);
    await mkdir(services, { recursive: true });
    await writeFile(join(services, 'io.trino.spi.Plugin'), plugin);
    const jar = ['cf', join(lib, name, 'services.jar'), '-C', dirname(dirname(services)), '.'];
    await run(join(JAVA, 'bin/jar'), jar);
  }
  await writeFile(
    join(lib, 'Launch.java'),
    `public class Launch { public static void main(String[] given) { new io.trino.server.Server().start("${TRINO_VERSION}"); } }`,
  );
  await rename(lib, INSTALLED);
  return false;
}

export interface Trino {
  readonly port: number;
  /** Of the coordinator, with this catalog and schema. */
  url(place: string): string;
  /** Runs a statement that writes. */
  run(sql: string): Promise<void>;
  /** Ends a node as `kill -9` would: `coordinator`, `worker0` and so on. */
  kill(node: string): Promise<void>;
  /** Starts a node that was ended. Resolves once it takes part. */
  start(node: string): Promise<void>;
  stop(): Promise<void>;
}

interface TrinoOptions {
  readonly workers?: number;
  /** Of each node's heap. */
  readonly memory?: string;
  /** Lines of `config.properties`. */
  readonly settings?: readonly string[];
}

/** @param catalogs - properties by the name of the catalog */
export async function startTrino(
  catalogs: Readonly<Record<string, readonly string[]>>,
  { workers = 0, memory = '2G', settings = [] }: TrinoOptions = {},
): Promise<Trino> {
  const home = await mkdtemp(join(tmpdir(), 'rollcall-trino-'));
  const names = ['coordinator', ...Array.from({ length: workers }, (_, n) => `worker${n}`)];
  const ports = new Map<string, number>();
  for (const name of names) ports.set(name, await freePort());
  const port = ports.get('coordinator') ?? 0;
  const running = new Map<string, { kill(): void; readonly exit: Promise<unknown> }>();

  async function install(id: string): Promise<void> {
    const folder = join(home, id);
    await mkdir(join(folder, 'etc/catalog'), { recursive: true });
    await mkdir(join(folder, 'plugin'));
    for (const plugin of Object.keys(PLUGINS)) await symlink(join(INSTALLED, plugin), join(folder, 'plugin', plugin));
    for (const [name, lines] of Object.entries(catalogs))
      await writeFile(join(folder, `etc/catalog/${name}.properties`), lines.join('\n'));
    const config = [
      ...(id === 'coordinator'
        ? ['coordinator=true', `node-scheduler.include-coordinator=${workers === 0}`]
        : ['coordinator=false']),
      `http-server.http.port=${ports.get(id)}`,
      `discovery.uri=http://127.0.0.1:${port}`,
      ...settings,
    ];
    await writeFile(join(folder, 'etc/config.properties'), config.join('\n'));
    await writeFile(join(folder, 'etc/log.properties'), 'io.trino=ERROR\n');
  }

  function launch(id: string): void {
    const folder = join(home, id);
    const settings = {
      ...{ config: 'etc/config.properties', 'log.levels-file': 'etc/log.properties', 'node.id': id },
      ...{ 'node.environment': 'test', 'node.data-dir': join(folder, 'data') },
      ...{ 'node.internal-address': '127.0.0.1', 'node.bind-ip': '127.0.0.1' },
    };
    const given = Object.entries(settings).map(([name, value]) => `-D${name}=${value}`);
    const flags = [`-Xmx${memory}`, '--add-modules=jdk.incubator.vector', '--enable-native-access=ALL-UNNAMED'];
    const options = [...flags, ...given, '-cp', join(INSTALLED, 'server/*'), join(INSTALLED, 'Launch.java')];
    const child = spawn(join(JAVA ?? '', 'bin/java'), options, { cwd: folder, stdio: 'ignore' });
    running.set(id, { kill: () => child.kill('SIGKILL'), exit: once(child, 'exit') });
  }

  const url = (place: string) => `http://test@127.0.0.1:${port}/${place}`;
  const nodes = async () => {
    const reader = await openTrino({ type: 'trino', url: url('memory/default') }, {});
    try {
      return await readAll(reader, "select node_id from system.runtime.nodes where state = 'active'");
    } finally {
      await reader.close();
    }
  };
  /** The coordinator believes in a node for some time after its end, so that each is asked itself, too. */
  const isWhole = async () => {
    for (const at of ports.values()) {
      const answer = await fetch(`http://127.0.0.1:${at}/v1/info`);
      if (((await answer.json()) as { starting: boolean }).starting) return false;
    }
    return (await nodes()).length === names.length;
  };
  const whole = () => until(() => isWhole().catch(() => false));

  for (const name of names) {
    await install(name);
    launch(name);
  }
  await whole();
  return {
    port,
    url,
    async run(sql) {
      const headers = { 'x-trino-user': 'test' };
      let answer = await fetch(`http://127.0.0.1:${port}/v1/statement`, { method: 'POST', body: sql, headers });
      for (;;) {
        const { nextUri, error } = (await answer.json()) as { nextUri?: string; error?: { message: string } };
        if (error) throw new Error(error.message);
        if (nextUri === undefined) return;
        answer = await fetch(nextUri);
      }
    },
    async kill(node) {
      running.get(node)?.kill();
      await running.get(node)?.exit;
    },
    async start(node) {
      launch(node);
      await whole();
    },
    async stop() {
      for (const { kill } of running.values()) kill();
      await Promise.all([...running.values()].map(({ exit }) => exit));
      await rm(home, { recursive: true, force: true });
    },
  };
}

/** A catalog of the Hive connector for the files of a log, whose tables are described in a folder. */
export const logCatalog = (folder: string, s3: S3Server | null): readonly string[] => [
  ...['connector.name=hive', 'hive.metastore=file', 'hive.metastore.catalog.dir=local:///metastore'],
  ...['fs.local.enabled=true', `local.location=${folder}`, 'hive.timestamp-precision=MICROSECONDS'],
  ...(s3
    ? [
        ...['fs.s3.enabled=true', `s3.endpoint=${s3.endpoint}`, 's3.region=us-east-1', 's3.path-style-access=true'],
        ...[`s3.aws-access-key=${KEY_ID}`, `s3.aws-secret-key=${SECRET}`],
      ]
    : []),
];

/** Runs the statements of docs/event-log.md over the log at a place, in a catalog named `log`. @param view - over `files` */
export async function readLogWith(trino: Trino, events: string, view = EVENTS_VIEW): Promise<void> {
  const table = statementOf('Trino').replace('s3://bucket/rollcall/events', events);
  const whole = view.replace('VIEW events', 'VIEW log.web.events').replace('FROM files', 'FROM log.web.files');
  for (const statement of [...table.replace('s3://bucket/rollcall/web', 'local:///web').split(';\n'), whole])
    if (statement.trim() !== '') await trino.run(statement);
}

const DIALECT: AudienceDialect = {
  text: (column, name) => `json_extract_scalar(${column}, '$.${name}')`,
  number: (column, name) => `cast(json_extract_scalar(${column}, '$.${name}') as double)`,
  at: (_now, days = 0) => `($now - interval '${days}' day)`,
};

/** The SQL of an audience as Rollcall takes it. */
export const trinoSql = ({ sql }: Pick<YearAudience, 'sql'>): string =>
  `select person as user_id from (${sql(DIALECT, '')})`;
