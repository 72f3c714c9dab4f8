import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

export const VERSION = '1.5.5';
const PACKAGES = ['postgres_scanner', 'mysql_scanner', 'sqlite_scanner', 'delta', 'avro', 'iceberg', 'httpfs'];
/** As a configuration names them. The one for HTTP is last, because it then fetches the rest itself, by HTTPS. */
export const EXTENSIONS = ['postgres', 'mysql', 'sqlite', 'delta', 'avro', 'iceberg', 'httpfs'];

/** Gets extensions of DuckDB from Python packages; false without pip, or if its registry has none. */
export function download(folder: string): boolean {
  const wheels = join(folder, 'wheels');
  mkdirSync(wheels);
  const names = PACKAGES.map((name) => `duckdb-extension-${name.replace('_', '-')}==${VERSION}`);
  const python = (...given: string[]) => spawnSync('python3', given).status === 0;
  if (!python('-m', 'pip', 'download', '--quiet', '--no-deps', '-d', wheels, ...names)) return false;
  return readdirSync(wheels).every((wheel) => python('-m', 'zipfile', '-e', join(wheels, wheel), folder));
}

/** A proxy that answers for DuckDB's own server of extensions. */
export async function startExtensionServer(folder: string) {
  const asked: string[] = [];
  const server = createServer(({ url = '' }, answer) => {
    asked.push(url);
    const [, name = ''] = /\/(\w+)\.duckdb_extension\.gz$/.exec(url) ?? [];
    if (!PACKAGES.includes(name)) {
      answer.writeHead(404).end();
      return;
    }
    const parts = [`duckdb_extension_${name}`, 'extensions', `v${VERSION}`, `${name}.duckdb_extension`];
    answer.end(gzipSync(readFileSync(join(folder, ...parts)), { level: 1 }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, asked, close: () => server.close() };
}
