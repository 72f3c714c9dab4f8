import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';

const folder = join(import.meta.dirname, '../clickhouse');

/** Installs chdb from npm, once. Resolves to the reason why it can't; false if it is there. */
function installChdb(): string | false {
  if (existsSync(join(folder, 'node_modules/chdb'))) return false;
  try {
    execFileSync('npm', ['install', '--prefix', folder, '--no-package-lock', '--no-audit', '--no-fund']);
    return false;
  } catch (error) {
    return `chdb could not be installed from npm: ${(error as Error).message.slice(0, 300)}`;
  }
}

const skip = installChdb();
if (skip) t.test('reads ClickHouse', { skip }, async () => {});
else await import('../clickhouse/reader.clickhouse.ts');
