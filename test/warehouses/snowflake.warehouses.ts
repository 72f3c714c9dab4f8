import { execFile, spawn } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { openSnowflake } from '../../jobs/readers/snowflake.ts';
import { type ReaderFixture, readerContract } from '../contract/reader.ts';
import { CUTS, neverReadsLess } from '../jobs/readers/cuts.ts';
import { readAll } from '../jobs/readers/rows.ts';

const run = promisify(execFile);
const INSTALLED = join(import.meta.dirname, '../../node_modules/.cache/fakesnow');
/** Version 5 of the connector lacks what fakesnow imports. */
const PACKAGES = ['fakesnow[server]==0.12.1', 'snowflake-connector-python==4.8.1'];

/** Installs fakesnow from PyPI, once. Resolves to the reason why it can't; false if it is there. */
async function installFakesnow(): Promise<string | false> {
  if (existsSync(INSTALLED)) return false;
  const part = `${INSTALLED}.part`;
  await rm(part, { recursive: true, force: true });
  try {
    await run('python3', ['-m', 'venv', part]);
    await run(join(part, 'bin/pip'), ['install', '-q', ...PACKAGES]);
  } catch (error) {
    return `fakesnow could not be installed from PyPI: ${(error as Error).message.slice(0, 300)}`;
  }
  await rename(part, INSTALLED);
  return false;
}

const skip = await installFakesnow();
if (skip) t.comment(skip);
const MANY = 'select seq4() + 1 as user_id from table(generator(rowcount => 20000))';

t.test('reads fakesnow', { skip }, async (t) => {
  const server = spawn(join(INSTALLED, 'bin/python'), [join(import.meta.dirname, 'snowflake_api.py')], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  t.teardown(async () => {
    server.kill('SIGKILL');
    await once(server, 'exit');
  });
  const [line] = await once(createInterface(server.stdout), 'line');
  const { port } = JSON.parse(line) as { port: number };
  t.comment(`${PACKAGES.join(', ')} behind Snowflake's SQL API: the contract, and ${CUTS} cuts`);
  const { privateKey: key } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
  const privateKey = String(key.export({ type: 'pkcs8', format: 'pem' }));
  const open = async (t: Test, at = port) => {
    const url = `http://127.0.0.1:${at}`;
    const config = { type: 'snowflake', account: 'shop', user: 'reader', privateKey, url } as const;
    const reader = await openSnowflake(config, { folder: '.' });
    t.teardown(() => reader.close());
    return reader;
  };

  await t.test('passes the contract', async (t) => {
    const spelling: ReaderFixture['spelling'] = {
      text: (quoted) => `cast(${quoted.replaceAll('\\', '\\\\')} as varchar)`,
      // fakesnow knows no arrays of types.
      list: null,
      moment: (text) => `to_timestamp_ntz('${text}')`,
      double: (text) => `cast('${text}' as double)`,
      repeat: (text, times) => `repeat('${text}', ${times})`,
      series: (count) => `select seq4() + 1 as n from table(generator(rowcount => ${count}))`,
      endless:
        'select a.n as user_id from (select seq4() as n from table(generator(rowcount => 1000000))) as a cross join (select seq4() as n from table(generator(rowcount => 1000000))) as b where a.n + b.n < 0',
      hasInfinity: false,
    };
    readerContract(
      t,
      { open: () => open(t), spelling },
      {
        '$now is the time of the run, as a UTC timestamp': 'fakesnow looks for variables within texts',
        'traits: values by type, only when changed, null once gone': 'fakesnow sends a time that is null as 1970',
        'a column that is named twice is refused': 'fakesnow renames one of them',
      },
    );
  });

  await t.test('is never a smaller audience where the connection is cut', async (t) => {
    await neverReadsLess(t, port, (port) => open(t, port), MANY);
  });

  await t.test('reads times of every kind in UTC, and comments and texts of its own', async (t) => {
    // fakesnow looks for variables within comments, too: there is none in this one.
    const sql = `select $$it's$$ as text, to_timestamp_ntz('2026-03-01 12:00:00.250') as at, // isn't
      date '1960-02-29' as day, 12.50::number(12, 2) as price where to_timestamp_ntz('2026-01-01') < $now -- ;`;
    const row = ["it's", new Date('2026-03-01T12:00:00.250Z'), new Date('1960-02-29'), '12.50'];
    t.same(await readAll(await open(t), sql, Date.parse('2026-02-01')), [row]);
  });
});
