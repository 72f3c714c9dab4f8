import t from 'tap';
import { loggedYear } from '../events/helpers/logged-year.ts';
import { YEAR_AUDIENCES } from '../events/helpers/year.ts';
import { startS3 } from '../helpers/s3.ts';
import { installTrino, logCatalog, readLogWith, startTrino, TRINO_VERSION, trinoSql } from './trino.ts';

const skip = await installTrino();
if (skip) t.comment(skip);
const sql = Object.fromEntries(YEAR_AUDIENCES.map((audience) => [audience.key, trinoSql(audience)]));

for (const kind of ['folder', 'bucket'] as const) {
  t.test(`Trino finds the same members as DuckDB in the log's ${kind}, row by row`, { skip }, async (t) => {
    const s3 = kind === 'bucket' ? await startS3(t) : null;
    const year = await loggedYear(t, s3?.settings);
    const trino = await startTrino({ memory: ['connector.name=memory'], log: logCatalog(year.folder, s3) });
    t.teardown(() => trino.stop());
    t.comment(`Trino ${TRINO_VERSION} from Maven: four audiences on five dates over the log's ${kind}`);
    await readLogWith(trino, s3?.settings.path ?? 'local:///events');
    await year.compare({ engine: { type: 'trino', url: trino.url('log/web'), snapshots: 'lake' }, sql });
  });
}
