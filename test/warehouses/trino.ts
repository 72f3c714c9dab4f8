import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { openTrino } from '../../jobs/readers/trino.ts';
import { freePort } from '../helpers/free-port.ts';
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
  /** Ends a worker as `kill -9` would. */
  killWorker(): void;
  stop(): Promise<void>;
}

/** @param catalogs - properties by the name of the catalog */
export async function startTrino(
  catalogs: Readonly<Record<string, readonly string[]>>,
  { workers = 0, memory = '2G' } = {},
): Promise<Trino> {
  const home = await mkdtemp(join(tmpdir(), 'rollcall-trino-'));
  const port = await freePort();
  const started: { kill(): void; readonly exit: Promise<unknown> }[] = [];

  async function launch(id: string, isCoordinator: boolean): Promise<void> {
    const folder = join(home, id);
    await mkdir(join(folder, 'etc/catalog'), { recursive: true });
    await mkdir(join(folder, 'plugin'));
    for (const plugin of Object.keys(PLUGINS)) await symlink(join(INSTALLED, plugin), join(folder, 'plugin', plugin));
    for (const [name, lines] of Object.entries(catalogs))
      await writeFile(join(folder, `etc/catalog/${name}.properties`), lines.join('\n'));
    const config = [
      `coordinator=${isCoordinator}`,
      ...(isCoordinator ? [`node-scheduler.include-coordinator=${workers === 0}`] : []),
      `http-server.http.port=${isCoordinator ? port : await freePort()}`,
      `discovery.uri=http://127.0.0.1:${port}`,
    ];
    await writeFile(join(folder, 'etc/config.properties'), config.join('\n'));
    await writeFile(join(folder, 'etc/log.properties'), 'io.trino=ERROR\n');
    const settings = {
      ...{ config: 'etc/config.properties', 'log.levels-file': 'etc/log.properties', 'node.id': id },
      ...{ 'node.environment': 'test', 'node.data-dir': join(folder, 'data') },
      ...{ 'node.internal-address': '127.0.0.1', 'node.bind-ip': '127.0.0.1' },
    };
    const given = Object.entries(settings).map(([name, value]) => `-D${name}=${value}`);
    const flags = [`-Xmx${memory}`, '--add-modules=jdk.incubator.vector', '--enable-native-access=ALL-UNNAMED'];
    const options = [...flags, ...given, '-cp', join(INSTALLED, 'server/*'), join(INSTALLED, 'Launch.java')];
    const child = spawn(join(JAVA ?? '', 'bin/java'), options, { cwd: folder, stdio: 'ignore' });
    started.push({ kill: () => child.kill('SIGKILL'), exit: once(child, 'exit') });
  }

  const url = (place: string) => `http://test@127.0.0.1:${port}/${place}`;
  const ask = async (sql: string) => {
    const reader = await openTrino({ type: 'trino', url: url('memory/default') }, {});
    try {
      return await readAll(reader, sql);
    } finally {
      await reader.close();
    }
  };

  await launch('coordinator', true);
  for (let worker = 0; worker < workers; worker += 1) await launch(`worker${worker}`, false);
  const nodes = async () => (await ask("select node_id from system.runtime.nodes where state = 'active'")).length;
  await until(() =>
    nodes().then(
      (found) => found === workers + 1,
      () => false,
    ),
  );
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
    killWorker: () => started.at(-1)?.kill(),
    async stop() {
      for (const { kill } of started) kill();
      await Promise.all(started.map(({ exit }) => exit));
      await rm(home, { recursive: true, force: true });
    },
  };
}
