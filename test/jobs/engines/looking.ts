/** Stages SQL over files once, and prints how many of them it looked through and how many looks are kept. */
import { join } from 'node:path';
import { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { openDuckdb } from '../../../jobs/engines/duckdb/duckdb.ts';
import { systemClock } from '../../../src/kernel/clock.ts';
import { request } from '../../contract/engine.ts';

const [, , folder = '', sql = ''] = process.argv;
let looks = 0;
const { run } = DuckDBConnection.prototype;
DuckDBConnection.prototype.run = function counted(this: DuckDBConnection, ...query: Parameters<typeof run>) {
  if (/rollcall_file/.test(query[0])) looks += 1;
  return run.apply(this, query);
};
const path = join(folder, 'a.duckdb');
const options = { folder, clock: systemClock };
const engine = await openDuckdb({ type: 'duckdb', path, memoryLimit: null, threads: null }, options);
const { plan } = await engine.stage(request({ sql }));
await engine.discard(plan);
await engine.close();
const connection = await (await DuckDBInstance.create(path)).connect();
const [[kept] = []] = await (await connection.run('select count(*)::integer from rollcall.looks')).getRowsJS();
console.log(JSON.stringify({ looks, kept }));
process.exit();
